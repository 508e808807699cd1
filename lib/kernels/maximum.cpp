// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Maxima.

#include "kernels/functions.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/maximum.cpp"

#include <hwy/foreach_target.h>

#include "kernels/simd/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

ReduceFunction maximum_of(DType dtype) {
  switch (dtype) {
    case DType::i8: return function_of<PlainFamily<std::int8_t, Maximum>>;
    case DType::i16: return function_of<PlainFamily<std::int16_t, Maximum>>;
    case DType::i32: return function_of<PlainFamily<std::int32_t, Maximum>>;
    case DType::i64: return function_of<PlainFamily<std::int64_t, Maximum>>;
    case DType::boolean:
    case DType::u8: return function_of<PlainFamily<std::uint8_t, Maximum>>;
    case DType::u16: return function_of<PlainFamily<std::uint16_t, Maximum>>;
    case DType::u32: return function_of<PlainFamily<std::uint32_t, Maximum>>;
    case DType::u64: return function_of<PlainFamily<std::uint64_t, Maximum>>;
    default: return float_function<Maximum>(dtype);
  }
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(maximum_of);
ReduceFunction maximum_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(maximum_of)(dtype); }

}  // namespace lockstep::detail
#endif
