// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Maxima.

#include "kernels/reduce.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/maximum.cpp"

#include <hwy/foreach_target.h>

#include "kernels/simd/fold-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {

ReduceFunction maximum_of(DType dtype) { return ordered_function<Maximum>(dtype); }

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(maximum_of);
ReduceFunction maximum_function(DType dtype) { return HWY_DYNAMIC_DISPATCH(maximum_of)(dtype); }

}  // namespace lockstep::detail
#endif
