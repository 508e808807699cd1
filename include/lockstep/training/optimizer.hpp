// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The interface of all optimizers. The library's optimizers use only the public API, like a user's optimizer.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// A list of gradients: spans of host memory, or views. The caller's list must outlive this object.
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
/// bits for every layout, also on GPUs. The state is stored in variables of the strategy, one copy per replica.
/// Parameters on a GPU are updated on that GPU, in the order of the replica's stream. Thread-safety: the replicas of
/// one step may call `apply` concurrently.
class LOCKSTEP_API Optimizer {
 public:
  virtual ~Optimizer();

  /// Applies one optimization step to this replica's copies of the parameters. Local: every replica must call `apply`
  /// with equal gradients, such as the results of `replica.all_reduce`, and with the same learning rate. `gradients[k]`
  /// has as many elements as parameter k.
  /// Does not allocate if gradients and parameters are on one device. Throws Error(invalid_argument), and writes
  /// nothing, if the number of gradients or of their elements is wrong, if a gradient is not f32, or if the learning
  /// rate is not a finite number.
  void apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate);
  /// Like the function above, for gradients on any device. A gradient that is not on the device of its parameter is
  /// copied to that device.
  void apply(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate);

  /// Reduces the `gradients` over all replicas, in place and in one collective, and applies the result. Collective over
  /// all replicas, which pass the same op and learning rate. Use sum if the loss is divided by the global batch size,
  /// and mean if the loss is divided by the replica's batch size. Throws like apply, before any communication, and like
  /// all_reduce. Does not allocate after the first steps.
  /// `where`: the source line of the call, for error texts.
  void apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum,
                       const std::source_location& where = std::source_location::current());
  void apply_gradients(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum,
                       const std::source_location& where = std::source_location::current());

  /// Handles of the optimizer's variables (not copies of them), in a fixed order, for checkpoints. Local.
  [[nodiscard]] std::vector<Variable> state() const { return do_state(); }

 private:
  void check_arguments(const GradientList& gradients, float learning_rate, std::string_view call) const;
  [[nodiscard]] virtual std::span<const MirroredVariable<float>> do_parameters() const = 0;
  [[nodiscard]] virtual std::vector<Variable> do_state() const = 0;
  virtual void do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) = 0;
};

}  // namespace lockstep
