// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/reduce.hpp"

#include "base/check.hpp"

namespace lockstep::detail {
namespace {

ReduceFunction find(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::sum: return sum_function(dtype);
    case ReduceOp::mean: return is_integer(dtype) ? integer_mean_function(dtype) : sum_function(dtype);
    case ReduceOp::min: return minimum_function(dtype);
    case ReduceOp::max: return maximum_function(dtype);
    case ReduceOp::prod: return product_function(dtype);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return bits_function(op, dtype);
  }
  return nullptr;
}

}  // namespace

ReduceFunction reduce_function(ReduceOp op, DType dtype) {
  LOCKSTEP_CHECK(supports(op, dtype));
  const ReduceFunction function = find(op, dtype);
  LOCKSTEP_CHECK(function != nullptr);
  return function;
}

void reduce(const Fold& fold, std::int64_t count) {
  LOCKSTEP_CHECK(!fold.inputs.empty() && fold.inputs.size() == fold.merges.size());
  reduce_function(fold.op, fold.dtype)(fold, count);
}

}  // namespace lockstep::detail
