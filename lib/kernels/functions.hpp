// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels from which `reduce_function` chooses: one source per function, compiled for every target, so that they
// compile in parallel. Each function returns the kernel of the best target of this processor, or null for a type that
// it does not support.

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
