// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What `reduce_function` chooses from: one source per function, compiled for every target, so that they compile side by
// side. Each gives the kernel of the best target that this processor has, and null for a type it does not take.

#pragma once

#include "kernels/reduce.hpp"

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

namespace lockstep::detail {

[[nodiscard]] ReduceFunction sum_function(DType dtype);
[[nodiscard]] ReduceFunction integer_mean_function(DType dtype);
[[nodiscard]] ReduceFunction minimum_function(DType dtype);
[[nodiscard]] ReduceFunction maximum_function(DType dtype);
[[nodiscard]] ReduceFunction product_function(DType dtype);
[[nodiscard]] ReduceFunction bits_function(ReduceOp op, DType dtype);

}  // namespace lockstep::detail
