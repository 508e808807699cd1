// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The local half of a reduction along an axis.

#pragma once

#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

namespace lockstep {

/// `axis` counted from 0: -1 is the last. Throws Error(invalid_argument) when `shape` has no such axis.
[[nodiscard]] int resolve_axis(int axis, const Shape& shape);

/// The sums over `axis` (from 0), which is gone from the shape, in the accumulation type of (op, dtype): f32 for 16-bit
/// floats, f64 for the mean of integers. Elements are added in the order of the axis, from zero; integers wrap. Throws
/// Error(invalid_argument) for bool.
[[nodiscard]] Tensor axis_sum(ConstTensorView value, int axis, ReduceOp op);

/// What a mean over `count` elements is: `sum` divided by it, in its own element type (f32 or f64).
void divide_by(Tensor& sum, std::int64_t count);

/// `value` with its elements as `dtype`: f32 to f16 or bf16, rounded once; else itself.
[[nodiscard]] Tensor rounded_to(const Tensor& value, DType dtype);

}  // namespace lockstep
