// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The element types of kernels: their layout in memory, and the vectors in which they are combined. Compiled once per
// target.
//
// Each class has the types in memory (Leaf, Partial, Result), the vector of `lanes` accumulators (Accumulator), the
// vector of `lanes` results (Output), loads of leaves and partial results, `combine`, `result` for the root, and
// stores. Each load and each store accesses exactly `lanes` elements.

#include "kernels/reduce.hpp"
#include "kernels/simd/narrow_floats-inl.hpp"
#include "kernels/simd/ops-inl.hpp"

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(LOCKSTEP_KERNELS_SIMD_ELEMENTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_SIMD_ELEMENTS_INL
#undef LOCKSTEP_KERNELS_SIMD_ELEMENTS_INL
#else
#define LOCKSTEP_KERNELS_SIMD_ELEMENTS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

/// Sizes of vectors. full: the target's full size; small: 16 bytes of accumulators; single: one accumulator.
enum class Width { full, small, single };

template <class T, Width width>
using Tag = std::conditional_t<width == Width::full, hn::ScalableTag<T>,
                               hn::CappedTag<T, width == Width::small ? 16 / sizeof(T) : 1>>;

/// The options of a fold that determine how its root becomes the result.
struct Ending {
  explicit HWY_INLINE Ending(const Fold& fold)
      : is_partial(fold.result == FoldResult::partial),
        divides(fold.op == ReduceOp::mean),
        streams(fold.stream),
        replicas(fold.replicas) {}
  bool is_partial;
  bool divides;
  bool streams;
  int replicas;
};

/// Converts a floating-point root to the result: divides it for a mean, and makes NaN canonical.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ended(D d, V root, const Ending& ending) {
  if (ending.divides) root = hn::Div(root, hn::Set(d, static_cast<hn::TFromD<D>>(ending.replicas)));
  return canonical_where_nan(d, root);
}

/// Stores a vector. If `streams` is true, the store bypasses the caches, and `target` must be aligned to the vector.
template <bool streams, class D, class V>
HWY_INLINE void put_vector(D d, V value, hn::TFromD<D>* target) {
  if constexpr (streams) {
    hn::Stream(value, d, target);
  } else {
    hn::StoreU(value, d, target);
  }
}

/// The common part of all classes with one accumulator per element.
template <class D, class Op>
struct Accumulators {
  using Partial = hn::TFromD<D>;
  using Accumulator = hn::Vec<D>;
  static constexpr std::int64_t lanes = hn::MaxLanes(D());
  static constexpr unsigned leaves = Op::leaves;

  static HWY_INLINE Accumulator partial(const Partial* source) { return hn::LoadU(D(), source); }
  static HWY_INLINE Accumulator combine(Accumulator a, Accumulator b) { return Op::combine(D(), a, b); }
  template <bool streams>
  static HWY_INLINE void put_partial(Accumulator value, Partial* target) {
    put_vector<streams>(D(), value, target);
  }
  static HWY_INLINE bool can_stream_partial(const Partial* target) {
    return reinterpret_cast<std::uintptr_t>(target) % sizeof(Accumulator) == 0;
  }
};

/// Elements that are accumulated in their own type.
template <class T, class Op, Width width>
struct Plain : Accumulators<Tag<T, width>, Op> {
  using D = Tag<T, width>;
  using Leaf = T;
  using Result = T;
  using Accumulator = hn::Vec<D>;
  using Output = Accumulator;

  static HWY_INLINE Accumulator leaf(const Leaf* source) { return hn::LoadU(D(), source); }
  static HWY_INLINE Output result(Accumulator root, const Ending& ending) {
    if constexpr (std::is_floating_point_v<T>) {
      return ended(D(), root, ending);
    } else {
      return root;
    }
  }
  template <bool streams>
  static HWY_INLINE void put(Output value, Result* target) {
    put_vector<streams>(D(), value, target);
  }
};

/// 16-bit floats, accumulated in f32.
template <class Format, class Op, Width width>
struct NarrowFloat : Accumulators<Tag<float, width>, Op> {
  using D = Tag<float, width>;
  using D16 = hn::Rebind<std::uint16_t, D>;
  using Leaf = std::uint16_t;
  using Result = std::uint16_t;
  using Accumulator = hn::Vec<D>;
  using Output = hn::Vec<D16>;

  static HWY_INLINE Accumulator leaf(const Leaf* source) { return Format::widen(D(), hn::LoadU(D16(), source)); }
  static HWY_INLINE Output result(Accumulator root, const Ending& ending) {
    return Format::round(D(), ended(D(), root, ending));
  }
  template <bool streams>
  static HWY_INLINE void put(Output value, Result* target) {
    put_vector<streams>(D16(), value, target);
  }
};

/// bf16, with two elements in each 32-bit lane. This needs no shuffles, because a bf16 is the upper half of an f32.
template <class Op>
struct BrainPairs {
  using D = hn::ScalableTag<float>;
  using DU = hn::RebindToUnsigned<D>;
  using Leaf = std::uint16_t;
  using Partial = float;
  using Result = std::uint16_t;
  struct Accumulator {
    hn::Vec<D> lower;
    hn::Vec<D> upper;
  };
  using Output = hn::Vec<DU>;
  static constexpr std::int64_t lanes = 2 * hn::MaxLanes(D());
  static constexpr unsigned leaves = Op::leaves;

  static HWY_INLINE Accumulator leaf(const Leaf* source) {
    const auto pairs = hn::LoadU(DU(), reinterpret_cast<const std::uint32_t*>(source));
    return {hn::BitCast(D(), hn::ShiftLeft<16>(pairs)), hn::BitCast(D(), hn::And(pairs, upper_halves()))};
  }
  static HWY_INLINE Accumulator partial(const Partial* source) {
    Accumulator value;
    hn::LoadInterleaved2(D(), source, value.lower, value.upper);
    return value;
  }
  static HWY_INLINE Accumulator combine(Accumulator a, Accumulator b) {
    return {Op::combine(D(), a.lower, b.lower), Op::combine(D(), a.upper, b.upper)};
  }
  static HWY_INLINE Output result(Accumulator root, const Ending& ending) {
    const auto lower = hn::ShiftRight<16>(rounded(ended(D(), root.lower, ending)));
    const auto upper = hn::And(rounded(ended(D(), root.upper, ending)), upper_halves());
    return hn::Or(lower, upper);
  }
  template <bool streams>
  static HWY_INLINE void put(Output value, Result* target) {
    put_vector<streams>(DU(), value, reinterpret_cast<std::uint32_t*>(target));
  }
  template <bool>
  static HWY_INLINE void put_partial(Accumulator value, Partial* target) {
    hn::StoreInterleaved2(value.lower, value.upper, D(), target);
  }
  static HWY_INLINE bool can_stream_partial(const Partial*) { return false; }

 private:
  static HWY_INLINE Output upper_halves() { return hn::Set(DU(), 0xffff0000u); }
  static HWY_INLINE Output rounded(hn::Vec<D> value) { return bf16_in_upper_half(DU(), hn::BitCast(DU(), value)); }
};

/// Products of bytes, in 16-bit lanes whose upper halves are ignored, because Highway cannot multiply bytes.
template <Width width>
struct ByteProduct {
  using D = Tag<std::uint16_t, width>;
  using D8 = hn::Rebind<std::uint8_t, D>;
  using Leaf = std::uint8_t;
  using Partial = std::uint8_t;
  using Result = std::uint8_t;
  using Accumulator = hn::Vec<D>;
  using Output = hn::Vec<D8>;
  static constexpr std::int64_t lanes = hn::MaxLanes(D());
  static constexpr unsigned leaves = leaf_numbers({2});

  static HWY_INLINE Accumulator leaf(const Leaf* source) { return hn::PromoteTo(D(), hn::LoadU(D8(), source)); }
  static HWY_INLINE Accumulator partial(const Partial* source) { return leaf(source); }
  static HWY_INLINE Accumulator combine(Accumulator a, Accumulator b) { return hn::Mul(a, b); }
  static HWY_INLINE Output result(Accumulator root, const Ending&) {
    const auto lower_bytes = hn::And(root, hn::Set(D(), static_cast<std::uint16_t>(0xff)));
    return hn::DemoteTo(D8(), hn::BitCast(hn::RebindToSigned<D>(), lower_bytes));
  }
  template <bool streams>
  static HWY_INLINE void put(Output value, Result* target) {
    put_vector<streams>(D8(), value, target);
  }
};

/// The mean of integers: accumulated in f64, with f64 results.
template <class T, Width width>
struct IntegerMean {
  using D = Tag<double, width>;
  using Leaf = T;
  using Partial = double;
  using Result = double;
  using Accumulator = hn::Vec<D>;
  using Output = Accumulator;
  static constexpr std::int64_t lanes = hn::MaxLanes(D());
  static constexpr unsigned leaves = leaf_numbers({2});

  static HWY_INLINE Accumulator leaf(const Leaf* source) {
    const auto value = hn::LoadU(hn::Rebind<T, D>(), source);
    if constexpr (sizeof(T) == 8) {
      return widened_64(value);
    } else if constexpr (std::is_same_v<T, std::uint32_t>) {
      // the value becomes the low bits of an f64 with the exponent of 2^52
      const auto bits = hn::Or(hn::PromoteTo(DU(), value), hn::BitCast(DU(), hn::Set(D(), 0x1p52)));
      return hn::Sub(hn::BitCast(D(), bits), hn::Set(D(), 0x1p52));
    } else if constexpr (sizeof(T) == 4) {
      return hn::PromoteTo(D(), value);
    } else {
      return hn::PromoteTo(D(), hn::PromoteTo(hn::Rebind<std::int32_t, D>(), value));
    }
  }
  static HWY_INLINE Accumulator partial(const Partial* source) { return hn::LoadU(D(), source); }
  static HWY_INLINE Accumulator combine(Accumulator a, Accumulator b) { return hn::Add(a, b); }
  static HWY_INLINE Output result(Accumulator root, const Ending& ending) { return ended(D(), root, ending); }
  template <bool streams>
  static HWY_INLINE void put(Output value, Result* target) {
    put_vector<streams>(D(), value, target);
  }
  template <bool streams>
  static HWY_INLINE void put_partial(Accumulator value, Partial* target) {
    put_vector<streams>(D(), value, target);
  }
  static HWY_INLINE bool can_stream_partial(const Partial* target) {
    return reinterpret_cast<std::uintptr_t>(target) % sizeof(Accumulator) == 0;
  }

 private:
  using DU = hn::RebindToUnsigned<D>;

  /// Converts both 32-bit halves exactly: the lower half with the exponent of 2^52, the upper half with the exponent of
  /// 2^84. The sum of the halves is rounded once. The sign bit of a signed integer is flipped, which adds 2^63.
  template <class V>
  static HWY_INLINE Accumulator widened_64(V value) {
    constexpr bool is_signed = std::is_signed_v<T>;
    auto bits = hn::BitCast(DU(), value);
    if constexpr (is_signed) bits = hn::Xor(bits, hn::Set(DU(), 1ull << 63));
    const auto lower = hn::Or(hn::And(bits, hn::Set(DU(), 0xffffffffull)), hn::BitCast(DU(), hn::Set(D(), 0x1p52)));
    const auto upper = hn::Or(hn::ShiftRight<32>(bits), hn::BitCast(DU(), hn::Set(D(), 0x1p84)));
    const double excess = 0x1p84 + 0x1p52 + (is_signed ? 0x1p63 : 0.0);
    return hn::Add(hn::Sub(hn::BitCast(D(), upper), hn::Set(D(), excess)), hn::BitCast(D(), lower));
  }
};

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
