// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What all optimizers share. They are written with the public API, as a user would.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Moves parameters along gradients, in an order of operations that depends on nothing but the parameters: the result
/// is the same, bit for bit, for every layout. Its state is kept in variables of the strategy, one copy per replica.
/// Thread-safety: the replicas of one step call `apply` at the same time.
class LOCKSTEP_API Optimizer {
 public:
  virtual ~Optimizer();

  /// One step on this replica's copies. Local: call it on every replica with gradients that are equal on all, as after
  /// `replica.all_reduce`, and the same learning rate. `gradients[k]` has as many elements as parameter k.
  /// Allocates nothing. Throws Error(invalid_argument) for other numbers of gradients or elements; nothing is written
  /// then.
  void apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate);

  /// Reduces this replica's own `gradients` over all replicas, in place and as one collective, and applies the result.
  /// All replicas, with the same op and learning rate: sum for gradients of a loss that is divided by the global batch,
  /// mean for that of a loss divided by the replica's. Throws as apply, before anything is reduced, and as all_reduce.
  /// Allocates nothing in a steady step.
  void apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum);

  /// What it keeps beside the parameters, in a fixed order: for checkpoints. The same variables, not copies. Local.
  [[nodiscard]] std::vector<Variable> state() const { return do_state(); }

 private:
  void check_gradients(std::span<const std::span<float>> gradients) const;
  [[nodiscard]] virtual std::span<const MirroredVariable<float>> do_parameters() const = 0;
  [[nodiscard]] virtual std::vector<Variable> do_state() const = 0;
  virtual void do_apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate) = 0;
};

}  // namespace lockstep
