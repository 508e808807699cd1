// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The local half of a reduction along axes.

#pragma once

#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>

namespace lockstep {

/// The sums over the axes in `mask` (bit i: axis i), which are gone from the shape, in the accumulation type of
/// (op, dtype): f32 for 16-bit floats, f64 for the mean of integers. Each sum begins with zero and adds its elements in
/// row-major order; integers wrap. In host memory; the elements of a GPU are copied there first. Throws
/// Error(invalid_argument) for bool, and for an op other than sum and mean.
[[nodiscard]] Tensor axis_sum(ConstTensorView value, unsigned mask, ReduceOp op);

/// How many elements go into each of those sums.
[[nodiscard]] std::int64_t axis_count(const Shape& shape, unsigned mask);

}  // namespace lockstep
