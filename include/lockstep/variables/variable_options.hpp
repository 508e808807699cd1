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
  automatic,  ///< the synchronization of the creating function, by default on_write
  none,       ///< not supported; in tf.distribute, a variable that is not distributed
  on_write,   ///< a write goes to all copies, so all copies are equal
  on_read,    ///< a replica writes its own copy; reading outside of step functions aggregates the copies
};

/// How the values of the replicas are combined to one value. If the variable is synchronized on write, the values are
/// the values that the replicas write; if it is synchronized on read, the values are the copies.
enum class VariableAggregation : std::uint8_t {
  none,                ///< no aggregation: a write or a read that needs an aggregation is an error
  sum,                 ///< the sum over all replicas; not for bool
  mean,                ///< the mean over all replicas; not for integers and bool
  only_first_replica,  ///< the value of replica 0; in TensorFlow 2.21, the value of the first replica of each rank
};

/// Names: "auto", "none", "on_write", "on_read"; "none", "sum", "mean", "only_first_replica". Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(VariableSynchronization synchronization) noexcept;
[[nodiscard]] LOCKSTEP_API std::string_view to_string(VariableAggregation aggregation) noexcept;

/// The enumerator named `name`; upper and lower case are not distinguished. Local. Throws Error(invalid_argument),
/// whose text lists the names, for any other text.
[[nodiscard]] LOCKSTEP_API VariableSynchronization parse_variable_synchronization(std::string_view name);
[[nodiscard]] LOCKSTEP_API VariableAggregation parse_variable_aggregation(std::string_view name);

/// The reduction that `aggregation` stands for. Local. Throws Error(invalid_argument) for none and only_first_replica,
/// which are not reductions.
[[nodiscard]] LOCKSTEP_API ReduceOp reduce_op_of(VariableAggregation aggregation);

/// `name` without the suffix `_<number>` of each path segment. Variables that replicas create in a step match if their
/// canonical names are equal. "foo_1/bar_1/baz" gives "foo/bar/baz"; "foo1", "foo_a" and "foo_1:0" are unchanged.
/// Local.
[[nodiscard]] LOCKSTEP_API std::string canonical_name(std::string_view name);

struct VariableOptions {
  /// Name of the variable in errors. The copies of local replicas 0, 1, ... are named `name`, `name/replica_1`, ...
  std::string name = "Variable";
  VariableSynchronization synchronization = VariableSynchronization::automatic;
  VariableAggregation aggregation = VariableAggregation::none;
  /// Whether the program's optimizers should update the variable; the library does not use this option. Default: true
  /// for on_write, false for on_read.
  std::optional<bool> trainable = {};
  /// Whether copies of replicas on GPUs are in host memory. Default: false. For counters and totals that only the host
  /// uses.
  bool in_host_memory = false;
};

}  // namespace lockstep
