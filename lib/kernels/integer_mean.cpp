// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Means of integers, computed in f64.

#include "kernels/reduce.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/integer_mean.cpp"

#include <hwy/foreach_target.h>

#include "kernels/simd/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

ReduceFunction integer_mean_of(DType dtype) {
  switch (dtype) {
    case DType::i8: return function_of<IntegerMeanFamily<std::int8_t>>;
    case DType::i16: return function_of<IntegerMeanFamily<std::int16_t>>;
    case DType::i32: return function_of<IntegerMeanFamily<std::int32_t>>;
    case DType::i64: return function_of<IntegerMeanFamily<std::int64_t>>;
    case DType::u8: return function_of<IntegerMeanFamily<std::uint8_t>>;
    case DType::u16: return function_of<IntegerMeanFamily<std::uint16_t>>;
    case DType::u32: return function_of<IntegerMeanFamily<std::uint32_t>>;
    case DType::u64: return function_of<IntegerMeanFamily<std::uint64_t>>;
    default: return nullptr;
  }
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(integer_mean_of);
ReduceFunction integer_mean_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(integer_mean_of)(dtype); }

}  // namespace lockstep::detail
#endif
