// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Conversions between f32 and f16 or bf16. The rounding uses integer operations, because Highway 1.0.3 truncates in
// some places, and the bf16 instructions of processors flush subnormals. The exception is F16C, which conforms to IEEE
// 754 and is used on targets that have it. Compiled once per target.

#include "kernels/simd/ops-inl.hpp"

#include <hwy/highway.h>

#include <cstdint>

#if defined(LOCKSTEP_KERNELS_SIMD_NARROW_FLOATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_SIMD_NARROW_FLOATS_INL
#undef LOCKSTEP_KERNELS_SIMD_NARROW_FLOATS_INL
#else
#define LOCKSTEP_KERNELS_SIMD_NARROW_FLOATS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

/// Rounds the bits of f32 values to bf16; the result is in the upper half of each lane. Every NaN must be canonical.
template <class DU, class V = hn::Vec<DU>>
HWY_INLINE V bf16_in_upper_half(DU du, V bits) {
  const V is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  return hn::Add(bits, hn::Add(hn::Set(du, 0x7fffu), is_odd));
}

/// The lower 16 bits of each lane, as 16-bit lanes. The upper 16 bits must be 0.
template <class DF, class V>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, DF>> lower_halves(DF, V bits) {
  return hn::DemoteTo(hn::Rebind<std::uint16_t, DF>(), hn::BitCast(hn::RebindToSigned<DF>(), bits));
}

struct Brain {
  template <class DF, class V16>
  static HWY_INLINE hn::Vec<DF> widen(DF df, V16 narrow) {
    const hn::RebindToUnsigned<DF> du;
    return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, narrow)));
  }
  /// Every NaN of `value` must be canonical.
  template <class DF, class V = hn::Vec<DF>>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, DF>> round(DF df, V value) {
    const hn::RebindToUnsigned<DF> du;
    return lower_halves(df, hn::ShiftRight<16>(bf16_in_upper_half(du, hn::BitCast(du, value))));
  }
};

/// f16 conversion by integer operations.
struct HalfBySteps {
  template <class DF, class V16>
  static HWY_INLINE hn::Vec<DF> widen(DF df, V16 narrow) {
    const hn::RebindToUnsigned<DF> du;
    const hn::RebindToSigned<DF> di;
    const auto bits = hn::PromoteTo(du, narrow);
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    const auto exponent = hn::And(bits, hn::Set(du, 0x7c00u));
    const auto fraction = hn::And(bits, hn::Set(du, 0x3ffu));
    const auto shifted = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
    const auto normal = hn::Add(shifted, hn::Set(du, 112u << 23));
    // fraction * 2^-24 is exact
    const auto subnormal =
        hn::BitCast(du, hn::Mul(hn::ConvertTo(df, hn::BitCast(di, fraction)), hn::Set(df, 0x1p-24f)));
    const auto quiet = hn::IfThenElse(hn::Eq(fraction, hn::Zero(du)), hn::Zero(du), hn::Set(du, 0x400000u));
    const auto infinity_or_nan = hn::Or(hn::Or(shifted, hn::Set(du, 0x7f800000u)), quiet);
    const auto magnitude =
        hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), subnormal,
                       hn::IfThenElse(hn::Eq(exponent, hn::Set(du, 0x7c00u)), infinity_or_nan, normal));
    return hn::BitCast(df, hn::Or(sign, magnitude));
  }
  template <class DF, class V = hn::Vec<DF>>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, DF>> round(DF df, V value) {
    const hn::RebindToUnsigned<DF> du;
    const hn::RebindToSigned<DF> di;
    const auto bits = hn::BitCast(du, value);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto is_odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto normal = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(hn::Set(du, 0xfffu - 0x38000000u), is_odd)));
    // below 2^-14: adding 1/2 rounds the value to a multiple of 2^-24, ties to even
    const auto subnormal =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5f))), hn::Set(du, 0x3f000000u));
    const auto compared = hn::BitCast(di, magnitude);
    const auto is_at_least = [&](std::int32_t bound)
                                 HWY_ATTR { return hn::RebindMask(du, hn::Gt(compared, hn::Set(di, bound - 1))); };
    const auto finite = hn::IfThenElse(is_at_least(0x38800000), normal, subnormal);
    const auto unsigned_result = hn::IfThenElse(is_at_least(0x7f800001), hn::Set(du, 0x7e00u),
                                                hn::IfThenElse(is_at_least(0x477ff000), hn::Set(du, 0x7c00u), finite));
    return lower_halves(df, hn::Or(sign, unsigned_result));
  }
};

/// f16 conversion by F16C. Its instructions encode the rounding mode, and ignore flush-to-zero and denormals-are-zero
/// for f16.
struct HalfByProcessor {
  template <class DF, class V16>
  static HWY_INLINE hn::Vec<DF> widen(DF df, V16 narrow) {
    return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), narrow));
  }
  template <class DF, class V = hn::Vec<DF>>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, DF>> round(DF, V value) {
    return hn::BitCast(hn::Rebind<std::uint16_t, DF>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), value));
  }
};

using Half = std::conditional_t<HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3, HalfByProcessor, HalfBySteps>;

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
