// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Minima.

#include "kernels/reduce.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/minimum.cpp"

#include <hwy/foreach_target.h>

#include "kernels/simd/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

ReduceFunction minimum_of(DType dtype) { return ordered_function<Minimum>(dtype); }

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(minimum_of);
ReduceFunction minimum_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(minimum_of)(dtype); }

}  // namespace lockstep::detail
#endif
