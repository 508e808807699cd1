// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The combination of two vectors, lane by lane as in kernels/arithmetic.hpp. Compiled once per target.

#include <hwy/highway.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#if defined(LOCKSTEP_KERNELS_SIMD_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_SIMD_OPS_INL
#undef LOCKSTEP_KERNELS_SIMD_OPS_INL
#else
#define LOCKSTEP_KERNELS_SIMD_OPS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The min and max instructions of x86 return the second operand if one operand is NaN or both operands are zeros.
inline constexpr bool second_operand_wins = HWY_ARCH_X86 != 0 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;

template <class D>
inline constexpr bool is_float_tag = std::is_floating_point_v<hn::TFromD<D>>;

/// The bits of the canonical quiet NaN.
template <class D>
HWY_INLINE hn::Vec<D> canonical_nans(D d) {
  const hn::RebindToUnsigned<D> bits;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::BitCast(d, hn::Set(bits, 0x7fc00000u));
  } else {
    return hn::BitCast(d, hn::Set(bits, 0x7ff8000000000000u));
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V canonical_where_nan(D d, V value) {
  return hn::IfThenElse(hn::Eq(value, value), value, canonical_nans(d));
}

/// `other` in lanes where neither a nor b is NaN; the canonical NaN in all other lanes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V nan_where_unordered(D d, V a, V b, V other) {
  return hn::IfThenElse(hn::And(hn::Eq(a, a), hn::Eq(b, b)), other, canonical_nans(d));
}

/// The leaf counts for which an op has a specialised kernel, as a bitset. Only some counts have a kernel, because each
/// kernel takes time to compile.
constexpr unsigned leaf_numbers(std::initializer_list<int> numbers) {
  unsigned bits = 0;
  for (const int number : numbers) bits |= 1u << number;
  return HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 ? 0 : bits;
}

struct Sum {
  static constexpr unsigned leaves = leaf_numbers({2, 3, 4, 5, 6, 7, 8});
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Add(a, b);
  }
};

struct Product {
  static constexpr unsigned leaves = leaf_numbers({2, 4});
  template <class D, class V>
  static HWY_INLINE V combine(D d, V a, V b) {
    if constexpr (second_operand_wins && std::is_same_v<hn::TFromD<D>, std::uint64_t>) {
      return combine_64(d, a, b);
    } else {
      return hn::Mul(a, b);
    }
  }

 private:
  /// Highway cannot multiply 64-bit integers on all targets and sizes.
  template <class D, class V>
  static HWY_INLINE V combine_64(D d, V a, V b) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (hn::MaxLanes(D()) == 8) return hn::Mul(a, b);
#endif
    const hn::Repartition<std::uint32_t, D> halves;
    const auto low = [&](V v) HWY_ATTR { return hn::BitCast(halves, v); };
    const auto high = [&](V v) HWY_ATTR { return hn::BitCast(halves, hn::ShiftRight<32>(v)); };
    const V crossed = hn::Add(hn::MulEven(high(a), low(b)), hn::MulEven(low(a), high(b)));
    return hn::Add(hn::BitCast(d, hn::MulEven(low(a), low(b))), hn::ShiftLeft<32>(crossed));
  }
};

struct Minimum {
  static constexpr unsigned leaves = leaf_numbers({2, 4, 8});
  template <class D, class V>
  static HWY_INLINE V combine(D d, V a, V b) {
    if constexpr (!is_float_tag<D>) {
      return hn::Min(a, b);
    } else if constexpr (second_operand_wins) {
      // The minimum is computed in both operand orders. If a and b are not NaN, x and y are equal, except for the sign
      // of zero. If a or b is NaN, x is b and y is a, which compare as unequal.
      const V x = hn::Min(a, b);
      const V y = hn::Min(b, a);
      return hn::IfThenElse(hn::Eq(x, y), hn::Or(x, y), canonical_nans(d));
    } else {
      return nan_where_unordered(d, a, b,
                                 hn::IfThenElse(hn::Lt(a, b), a, hn::IfThenElse(hn::Lt(b, a), b, hn::Or(a, b))));
    }
  }
};

struct Maximum {
  static constexpr unsigned leaves = leaf_numbers({2, 4, 8});
  template <class D, class V>
  static HWY_INLINE V combine(D d, V a, V b) {
    if constexpr (!is_float_tag<D>) {
      return hn::Max(a, b);
    } else if constexpr (second_operand_wins) {
      const V x = hn::Max(a, b);
      const V y = hn::Max(b, a);
      return hn::IfThenElse(hn::Eq(x, y), hn::And(x, y), canonical_nans(d));
    } else {
      return nan_where_unordered(d, a, b,
                                 hn::IfThenElse(hn::Lt(a, b), b, hn::IfThenElse(hn::Lt(b, a), a, hn::And(a, b))));
    }
  }
};

struct BitAnd {
  static constexpr unsigned leaves = leaf_numbers({2, 4, 8});
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::And(a, b);
  }
};
struct BitOr {
  static constexpr unsigned leaves = leaf_numbers({2, 4, 8});
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Or(a, b);
  }
};
struct BitXor {
  static constexpr unsigned leaves = leaf_numbers({2, 4, 8});
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
