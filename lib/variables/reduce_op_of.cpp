// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/variables/reduce_op_of.hpp>

#include "base/check.hpp"

namespace lockstep {

ReduceOp reduce_op_of(VariableAggregation aggregation) {
  if (aggregation == VariableAggregation::sum) return ReduceOp::sum;
  if (aggregation == VariableAggregation::mean) return ReduceOp::mean;
  detail::throw_error(Code::invalid_argument,
                      "reduce_op_of: aggregation {} is no reduction; only sum and mean are, so give one of these",
                      to_string(aggregation));
}

}  // namespace lockstep
