// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Elementwise arithmetic on the device of the elements. The processor computes on host memory, and a kernel on a GPU,
// in stream order. The results have the same bits.

#pragma once

#include "kernels/elementwise.hpp"

#include <lockstep/core/device.hpp>
#include <lockstep/core/tensor_view.hpp>

namespace lockstep::detail {

/// Computes `what`, all of whose arrays are on `place`. Throws Error(unavailable) if CUDA fails.
void compute_on(Device place, const Elementwise& what);

/// target = target op value, on the device of `target`. Both have the same dtype, which is not bool, and the same
/// element count. If `value` is on another device, it is copied to the device of `target` first.
void combine_in_place(ElementOp op, TensorView target, ConstTensorView value);

/// Whether `values` has an integer element that is 0; false for other dtypes. Elements on a GPU are copied to host
/// memory.
[[nodiscard]] bool has_integer_zero(ConstTensorView values);

}  // namespace lockstep::detail
