// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What all handles of a variable share, and what a use of it means in the caller's context.

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
  /// Where a variable is used.
  enum class Place : std::uint8_t {
    plain,          // it has one copy, whatever the context
    replica,        // in its strategy's step function
    update,         // in an update of one copy
    cross_replica,  // in its strategy's scope or merge, or outside everything
  };
  struct Use {
    Place place;
    int copy;  // which one the context works on; 0 in cross-replica context
  };

  std::shared_ptr<ReplicaTeam> team;
  VariableOptions options;      // as it was made: neither `automatic` nor without `trainable`
  std::vector<Tensor> copies;   // one per local replica
  std::vector<Tensor> scratch;  // the aggregate that a replica's write applies to its copy; made by the first write

  [[nodiscard]] bool is_on_read() const noexcept { return options.synchronization == VariableSynchronization::on_read; }
  [[nodiscard]] Tensor& copy(int local) { return copies[static_cast<std::size_t>(local)]; }
  /// Throws Error(failed_precondition) in the scope or step of another strategy.
  [[nodiscard]] Use use() const;
  /// As use(), and throws Error(failed_precondition) where a step of another strategy would write a plain variable.
  [[nodiscard]] Use use_for_write() const;
  /// Throws `error`; in cross-replica context after telling the other ranks, which do not make the mistake perhaps. In
  /// a step `run` tells them.
  [[noreturn]] void refuse(const Use& use, const Error& error) const;

  /// The aggregate of all copies of all ranks, into `target`. Cross-replica context; collective.
  void aggregate_copies(TensorView target) const;
  /// The aggregate of what all replicas give to a write, in this replica's scratch. All replicas.
  [[nodiscard]] const Tensor& aggregate_written(int copy, ConstTensorView value);
  /// Throws the error of a replica's write without a rule.
  void require_aggregation() const;
};

}  // namespace lockstep
