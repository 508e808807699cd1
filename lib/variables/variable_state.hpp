// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The state that all handles of a variable share, and the meaning of a use of it in the caller's context.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/variables/variable_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace lockstep {

class ReplicaTeam;

struct VariableState {
  /// The context in which a variable is used.
  enum class Place : std::uint8_t {
    plain,          // it has one copy, whatever the context
    replica,        // in its strategy's step function
    update,         // in an update of one copy
    cross_replica,  // in its strategy's scope or merge, or outside everything
  };
  struct Use {
    Place place;
    int copy;  // the copy that the context uses; 0 in cross-replica context
  };

  std::shared_ptr<ReplicaTeam> team;
  VariableOptions options;     // as resolved at creation: never `automatic`, always with `trainable`
  std::vector<Tensor> copies;  // one per local replica
  std::vector<Tensor>
      scratch;  // per copy: the aggregate that a replica's write applies to it; allocated by the first write

  [[nodiscard]] bool is_on_read() const noexcept { return options.synchronization == VariableSynchronization::on_read; }
  [[nodiscard]] Tensor& copy(int local) { return copies[static_cast<std::size_t>(local)]; }
  /// Throws Error(failed_precondition) in the scope or step of another strategy.
  [[nodiscard]] Use use() const;
  /// As use(); also throws Error(failed_precondition) if a step of another strategy would write a plain variable.
  [[nodiscard]] Use use_for_write() const;
  /// Throws `error`; in cross-replica context after telling the other ranks, which do not make the mistake perhaps. In
  /// a step `run` tells them.
  [[noreturn]] void refuse(const Use& use, const Error& error) const;

  /// Writes the aggregate of all copies of all ranks to `target`. Cross-replica context. Collective.
  void aggregate_copies(TensorView target) const;
  /// The aggregate of the values that all replicas write, in this replica's scratch. Called by all replicas.
  [[nodiscard]] const Tensor& aggregate_written(int copy, ConstTensorView value);
  /// Throws the error of a replica's write to a variable without an aggregation.
  void require_aggregation() const;
};

}  // namespace lockstep
