// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Minima.

#include "kernels/functions.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/minimum.cpp"

#include <hwy/foreach_target.h>

#include "kernels/simd/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

ReduceFunction minimum_of(DType dtype) {
  switch (dtype) {
    case DType::i8: return function_of<PlainFamily<std::int8_t, Minimum>>;
    case DType::i16: return function_of<PlainFamily<std::int16_t, Minimum>>;
    case DType::i32: return function_of<PlainFamily<std::int32_t, Minimum>>;
    case DType::i64: return function_of<PlainFamily<std::int64_t, Minimum>>;
    case DType::boolean:
    case DType::u8: return function_of<PlainFamily<std::uint8_t, Minimum>>;
    case DType::u16: return function_of<PlainFamily<std::uint16_t, Minimum>>;
    case DType::u32: return function_of<PlainFamily<std::uint32_t, Minimum>>;
    case DType::u64: return function_of<PlainFamily<std::uint64_t, Minimum>>;
    default: return float_function<Minimum>(dtype);
  }
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(minimum_of);
ReduceFunction minimum_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(minimum_of)(dtype); }

}  // namespace lockstep::detail
#endif
