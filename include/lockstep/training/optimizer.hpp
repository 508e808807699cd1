// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What all optimizers share. They are written with the public API, as a user would.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Gradients as a user has them: spans of host memory, or views. Refers to a list that lives longer.
class GradientList {
 public:
  explicit GradientList(std::span<const std::span<float>> spans) noexcept : spans_(spans) {}
  explicit GradientList(std::span<const TensorView> views) noexcept : views_(views) {}

  [[nodiscard]] std::size_t size() const noexcept { return spans_.empty() ? views_.size() : spans_.size(); }
  [[nodiscard]] ConstTensorView operator[](std::size_t k) const {
    return spans_.empty() ? ConstTensorView(views_[k]) : ConstTensorView(view_of(spans_[k]));
  }

 private:
  std::span<const std::span<float>> spans_;
  std::span<const TensorView> views_;
};

/// Moves parameters along gradients, in an order of operations that depends on nothing but the parameters: the result
/// is the same, bit for bit, for every layout, on GPUs too. Its state is kept in variables of the strategy, one copy
/// per replica. Parameters on a GPU are stepped there, in order with the replica's stream. Thread-safety: the replicas
/// of one step call `apply` at the same time.
class LOCKSTEP_API Optimizer {
 public:
  virtual ~Optimizer();

  /// One step on this replica's copies. Local: call it on every replica with gradients that are equal on all, as after
  /// `replica.all_reduce`, and the same learning rate. `gradients[k]` has as many elements as parameter k.
  /// Allocates nothing where they lie in one place. Throws Error(invalid_argument) for other numbers of gradients or
  /// elements, and for gradients that are not f32; nothing is written then.
  void apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate);
  /// The same with gradients on any device; those that do not lie where the parameter does are copied there.
  void apply(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate);

  /// Reduces this replica's own `gradients` over all replicas, in place and as one collective, and applies the result.
  /// All replicas, with the same op and learning rate: sum for gradients of a loss that is divided by the global batch,
  /// mean for that of a loss divided by the replica's. Throws as apply, before anything is reduced, and as all_reduce.
  /// Allocates nothing in a steady step.
  void apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum);
  void apply_gradients(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum);

  /// What it keeps beside the parameters, in a fixed order: for checkpoints. The same variables, not copies. Local.
  [[nodiscard]] std::vector<Variable> state() const { return do_state(); }

 private:
  void check_gradients(const GradientList& gradients) const;
  [[nodiscard]] virtual std::span<const MirroredVariable<float>> do_parameters() const = 0;
  [[nodiscard]] virtual std::vector<Variable> do_state() const = 0;
  virtual void do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) = 0;
};

}  // namespace lockstep
