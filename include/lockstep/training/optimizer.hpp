// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The interface of all optimizers. They use only the public API, as a user's would.

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

/// A list of gradients: spans of host memory, or views. Refers to the caller's list, which must outlive it.
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

/// Updates parameters by gradients. The order of operations depends only on the parameters, so the result has the same
/// bits for every layout, on GPUs too. The state is kept in variables of the strategy, one copy per replica. Parameters
/// on a GPU are updated there, in the order of the replica's stream. Thread-safety: the replicas of one step may call
/// `apply` concurrently.
class LOCKSTEP_API Optimizer {
 public:
  virtual ~Optimizer();

  /// Makes one step on this replica's copies. Local: call it on every replica with equal gradients, as after
  /// `replica.all_reduce`, and the same learning rate. `gradients[k]` has as many elements as parameter k.
  /// Does not allocate if gradients and parameters are on one device. Throws Error(invalid_argument), and writes
  /// nothing, if the number of gradients or of their elements is wrong, or if a gradient is not f32.
  void apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate);
  /// The same with gradients on any device. A gradient that is not on the device of its parameter is copied to that
  /// device.
  void apply(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate);

  /// Reduces this replica's own `gradients` over all replicas, in place and in one collective, and applies the result.
  /// Collective over all replicas, with the same op and learning rate. Use sum if the loss is divided by the global
  /// batch size, mean if it is divided by the replica's batch size. Throws as apply, before any communication, and as
  /// all_reduce. Does not allocate in a steady step.
  void apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum);
  void apply_gradients(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum);

  /// The optimizer's own variables (not copies), in a fixed order, for checkpoints. Local.
  [[nodiscard]] std::vector<Variable> state() const { return do_state(); }

 private:
  void check_gradients(const GradientList& gradients) const;
  [[nodiscard]] virtual std::span<const MirroredVariable<float>> do_parameters() const = 0;
  [[nodiscard]] virtual std::vector<Variable> do_state() const = 0;
  virtual void do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) = 0;
};

}  // namespace lockstep
