// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/variables/variable.hpp>

namespace lockstep {

/// The reduction of an aggregation: of sum and mean the operation of that name. Local. Throws Error(invalid_argument)
/// for none and only_first_replica, which are no reductions.
[[nodiscard]] LOCKSTEP_API ReduceOp reduce_op_of(VariableAggregation aggregation);

}  // namespace lockstep
