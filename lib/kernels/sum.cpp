// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums, and with them the means of floating-point types.

#include "kernels/functions.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sum.cpp"

#include <hwy/foreach_target.h>

#include "kernels/simd/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

/// Integers wrap, so that the sign does not matter.
ReduceFunction sum_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::u8: return function_of<PlainFamily<std::uint8_t, Sum>>;
    case DType::i16:
    case DType::u16: return function_of<PlainFamily<std::uint16_t, Sum>>;
    case DType::i32:
    case DType::u32: return function_of<PlainFamily<std::uint32_t, Sum>>;
    case DType::i64:
    case DType::u64: return function_of<PlainFamily<std::uint64_t, Sum>>;
    default: return float_function<Sum>(dtype);
  }
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(sum_of);
ReduceFunction sum_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(sum_of)(dtype); }

}  // namespace lockstep::detail
#endif
