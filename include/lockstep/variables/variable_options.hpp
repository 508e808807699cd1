// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a variable is told when it is made.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// When the copies of a variable are brought together.
enum class VariableSynchronization : std::uint8_t {
  automatic,  ///< as on_write, or what the function that makes the variable says
  none,       ///< tf.distribute's name for a variable that is not distributed; refused, since no strategy makes one
  on_write,   ///< a write goes to all copies, so they are equal
  on_read,    ///< a replica writes its own copy; reading outside of step functions joins them
};

/// How the replicas' values become one: what is written, of a variable synchronized on write; the copies themselves,
/// of one synchronized on read.
enum class VariableAggregation : std::uint8_t {
  none,                ///< there is no rule: such a write, or such a read, is an error
  sum,                 ///< the sum over all replicas
  mean,                ///< the mean over all replicas; not for integers and bool
  only_first_replica,  ///< the value of replica 0 of all ranks; TensorFlow 2.21 takes the first of each rank
};

/// "auto", "none", "on_write", "on_read"; "none", "sum", ... Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(VariableSynchronization synchronization) noexcept;
[[nodiscard]] LOCKSTEP_API std::string_view to_string(VariableAggregation aggregation) noexcept;

/// The enumerator of that name, in any case of letters: "ON_READ", "mean". Local. Throws Error(invalid_argument) that
/// lists the names.
[[nodiscard]] LOCKSTEP_API VariableSynchronization parse_variable_synchronization(std::string_view name);
[[nodiscard]] LOCKSTEP_API VariableAggregation parse_variable_aggregation(std::string_view name);

/// The reduction that `aggregation` asks for. Local. Throws Error(invalid_argument) for none and only_first_replica,
/// which are no reductions.
[[nodiscard]] LOCKSTEP_API ReduceOp reduce_op_of(VariableAggregation aggregation);

/// The name under which replicas match the variables that they make in a step: without the `_<number>` that ends a
/// segment of the path. "foo_1/bar_1/baz" gives "foo/bar/baz"; "foo1", "foo_a" and "foo_1:0" stay. Local.
[[nodiscard]] LOCKSTEP_API std::string canonical_name(std::string_view name);

struct VariableOptions {
  /// Shown in errors; copies are `name`, `name/replica_1`, ... with the number of the local replica.
  std::string name = "Variable";
  VariableSynchronization synchronization = VariableSynchronization::automatic;
  VariableAggregation aggregation = VariableAggregation::none;
  /// For optimizers and the like; the library itself does not look at it. Default: true, but false on_read.
  std::optional<bool> trainable = {};
  /// Whether the copies of replicas on GPUs are in host memory, too: for counters and totals that the host looks at,
  /// and what it alone computes.
  bool in_host_memory = false;
};

}  // namespace lockstep
