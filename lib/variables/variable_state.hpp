// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The state that all handles of a variable share. It determines what a use means in the caller's context.

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/variables/variable_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string_view>
#include <vector>

namespace lockstep {

class ReplicaTeam;

struct VariableState {
  /// The context in which a variable is used.
  enum class Place : std::uint8_t {
    plain,          // any context; the variable is of the default strategy or a OneDeviceStrategy, and has one copy
    replica,        // in the step function of the variable's strategy
    update,         // in an update of one copy
    cross_replica,  // in the scope or a merge_call of the variable's strategy, or outside of all scopes and steps
  };
  struct Use {
    Place place;
    int copy;  // index of the copy that the context uses; 0 in cross-replica context
  };

  std::shared_ptr<ReplicaTeam> team;
  VariableOptions options;     // resolved at creation: never `automatic`; `trainable` is set
  std::vector<Tensor> copies;  // one per local replica
  std::vector<Tensor>
      scratch;  // by copy: aggregate of the values that the replicas write; allocated by the first write

  [[nodiscard]] bool is_on_read() const noexcept { return options.synchronization == VariableSynchronization::on_read; }
  [[nodiscard]] Tensor& copy(int local) { return copies[static_cast<std::size_t>(local)]; }
  /// How the caller's context uses the variable. Throws Error(failed_precondition) in the scope or step of another
  /// strategy.
  [[nodiscard]] Use use() const;
  /// As use(); also throws Error(failed_precondition) if a step of another strategy would write a plain variable.
  [[nodiscard]] Use use_for_write() const;
  /// Throws `error`. In cross-replica context the error is first propagated to the other ranks, because the error may
  /// occur on this rank only. In a step, `run` propagates the error.
  [[noreturn]] void refuse(const Use& use, const Error& error) const;

  /// Writes the aggregate of all copies of all ranks to `target`. Cross-replica context. Collective.
  void aggregate_copies(TensorView target) const;
  /// The aggregate of the values that all replicas write, stored in this replica's element of `scratch`. All replicas
  /// call this function. `call` and `where`: the user's call and its line, for errors.
  [[nodiscard]] const Tensor& aggregate_written(int copy, ConstTensorView value, std::string_view call,
                                                const std::source_location& where);
  /// Throws Error(invalid_argument) if the aggregation is none: a replica cannot write such a variable.
  void require_aggregation(std::string_view call) const;
};

}  // namespace lockstep
