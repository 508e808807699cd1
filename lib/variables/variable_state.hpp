// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The state that all handles of a variable share, and the interpretation of a use in the caller's context.

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
    plain,          // any context: a variable of the default strategy or of a OneDeviceStrategy has one copy
    replica,        // in the step function of the variable's strategy
    update,         // in an update of one copy
    cross_replica,  // in the scope or a merge_call of its strategy, or outside of all scopes and steps
  };
  struct Use {
    Place place;
    int copy;  // index of the copy that the context uses; 0 in cross-replica context
  };

  std::shared_ptr<ReplicaTeam> team;
  VariableOptions options;     // as resolved at creation: never `automatic`, always with `trainable`
  std::vector<Tensor> copies;  // one per local replica
  std::vector<Tensor>
      scratch;  // by copy: aggregate of the values that all replicas write; allocated by the first write

  [[nodiscard]] bool is_on_read() const noexcept { return options.synchronization == VariableSynchronization::on_read; }
  [[nodiscard]] Tensor& copy(int local) { return copies[static_cast<std::size_t>(local)]; }
  /// Throws Error(failed_precondition) in the scope or step of another strategy.
  [[nodiscard]] Use use() const;
  /// As use(); also throws Error(failed_precondition) if a step of another strategy would write a plain variable.
  [[nodiscard]] Use use_for_write() const;
  /// Throws `error`. In cross-replica context the error is first propagated to the other ranks, because it may occur on
  /// this rank only; in a step, `run` propagates it.
  [[noreturn]] void refuse(const Use& use, const Error& error) const;

  /// Writes the aggregate of all copies of all ranks to `target`. Cross-replica context. Collective.
  void aggregate_copies(TensorView target) const;
  /// The aggregate of the values that all replicas write, stored in this replica's scratch. All replicas call it.
  [[nodiscard]] const Tensor& aggregate_written(int copy, ConstTensorView value);
  /// Throws the error of a replica's write to a variable without an aggregation.
  void require_aggregation() const;
};

}  // namespace lockstep
