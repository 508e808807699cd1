// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Options of variables.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// When the copies of a variable are synchronized.
enum class VariableSynchronization : std::uint8_t {
  automatic,  ///< on_write, unless the function that creates the variable says otherwise
  none,       ///< a variable that is not distributed, as in tf.distribute; refused: no strategy makes one
  on_write,   ///< a write goes to all copies, so they are equal
  on_read,    ///< a replica writes its own copy; reading outside of step functions aggregates them
};

/// How the values of the replicas become one value: the written values for a variable that is synchronized on write,
/// the copies for one that is synchronized on read.
enum class VariableAggregation : std::uint8_t {
  none,                ///< not defined: a write or read that needs it is an error
  sum,                 ///< the sum over all replicas; not for bool
  mean,                ///< the mean over all replicas; not for integers and bool
  only_first_replica,  ///< the value of replica 0 of all ranks; TensorFlow 2.21 takes the first of each rank
};

/// The name: "auto", "none", "on_write", "on_read"; "none", "sum", "mean", "only_first_replica". Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(VariableSynchronization synchronization) noexcept;
[[nodiscard]] LOCKSTEP_API std::string_view to_string(VariableAggregation aggregation) noexcept;

/// The enumerator of that name; upper and lower case are not distinguished. Local. Throws Error(invalid_argument),
/// which lists the names, for any other text.
[[nodiscard]] LOCKSTEP_API VariableSynchronization parse_variable_synchronization(std::string_view name);
[[nodiscard]] LOCKSTEP_API VariableAggregation parse_variable_aggregation(std::string_view name);

/// The reduction that `aggregation` stands for. Local. Throws Error(invalid_argument) for none and only_first_replica,
/// which are not reductions.
[[nodiscard]] LOCKSTEP_API ReduceOp reduce_op_of(VariableAggregation aggregation);

/// The name by which the variables that replicas create in a step are matched: `name` without a `_<number>` at the end
/// of a path segment. "foo_1/bar_1/baz" gives "foo/bar/baz"; "foo1", "foo_a" and "foo_1:0" are unchanged. Local.
[[nodiscard]] LOCKSTEP_API std::string canonical_name(std::string_view name);

struct VariableOptions {
  /// Shown in errors. Copies are named `name`, `name/replica_1`, ... by local replica.
  std::string name = "Variable";
  VariableSynchronization synchronization = VariableSynchronization::automatic;
  VariableAggregation aggregation = VariableAggregation::none;
  /// For optimizers; not used by the library itself. Default: true for on_write, false for on_read.
  std::optional<bool> trainable = {};
  /// Whether the copies of replicas on GPUs are in host memory: for counters and totals that only the host reads and
  /// computes.
  bool in_host_memory = false;
};

}  // namespace lockstep
