// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Products.

#include "kernels/functions.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/product.cpp"

#include <hwy/foreach_target.h>

#include "kernels/simd/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

/// Integers wrap, so that the sign does not matter.
ReduceFunction product_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::u8: return function_of<ByteProductFamily>;
    case DType::i16:
    case DType::u16: return function_of<PlainFamily<std::uint16_t, Product>>;
    case DType::i32:
    case DType::u32: return function_of<PlainFamily<std::uint32_t, Product>>;
    case DType::i64:
    case DType::u64: return function_of<PlainFamily<std::uint64_t, Product>>;
    default: return float_function<Product>(dtype);
  }
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(product_of);
ReduceFunction product_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(product_of)(dtype); }

}  // namespace lockstep::detail
#endif
