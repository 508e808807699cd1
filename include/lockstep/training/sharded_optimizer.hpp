// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers whose state is divided among the replicas.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/owned.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/training/adam.hpp>
#include <lockstep/training/sgd.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <source_location>
#include <span>
#include <vector>

namespace lockstep {

/// Adam or Sgd with a sharded state (stage 1 of ZeRO; Rajbhandari et al., "ZeRO: memory optimizations toward training
/// trillion parameter models", SC 2020). Each of the R replicas keeps the state of 1/R of the elements of each
/// parameter. A step is a reduce_scatter of the gradients, the update of this replica's slice of each parameter, and an
/// all_gather of the parameters. The parameters get the same bits as with Adam::apply_gradients or
/// Sgd::apply_gradients.
///
/// Parameters and gradients must be in host memory. Lamb cannot be sharded in this way, since it needs the norm of each
/// parameter. To clip gradients by their global norm, reduce them first, by GradientBuckets, and call `apply`.
///
/// Memory per replica, for a parameter of n elements: floor(n/R) + (n mod R) elements of each slot of the state (Adam:
/// 2, Sgd with momentum: 1), and floor(n/R) elements that are received and sent. Cost per step: the reduce_scatter and
/// the all_gather move as many bytes as one all_reduce. If the number of elements of a parameter is not divisible by R,
/// a small all_reduce is added; its n mod R last elements are updated by every replica. Thread-safety: the replicas of
/// one step may call `apply_gradients` or `apply` concurrently.
class LOCKSTEP_API ShardedOptimizer {
 public:
  /// Creates the state. Collective. `parameters` are variables of `strategy`. Throws Error(invalid_argument) like the
  /// constructors of Adam and Sgd, and for a parameter on a GPU.
  ShardedOptimizer(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const AdamOptions& options);
  ShardedOptimizer(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const SgdOptions& options);
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;
  ~ShardedOptimizer();

  /// Reduces the `gradients` over all replicas, and applies one optimization step to all copies of the parameters.
  /// Collective over all replicas, which pass the same op and learning rate. `gradients[k]` is f32, in host memory, and
  /// has as many elements as parameter k. Afterwards the contents of the gradients are unspecified.
  /// Throws Error(invalid_argument) for arguments that this replica can check, before any communication and before
  /// anything is written, and the errors of the collectives. If the collective of the gradients fails, neither
  /// parameters nor state are changed. If the collective of the parameters fails, the parameters are unspecified:
  /// restore them. Does not allocate after the first steps. `where`: the source line of the call, for error texts.
  void apply_gradients(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum,
                       const std::source_location& where = std::source_location::current());
  void apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients, float learning_rate,
                       ReduceOp op = ReduceOp::sum,
                       const std::source_location& where = std::source_location::current());

  /// The same step with gradients that are reduced already, such as those of GradientBuckets, which may have been
  /// clipped: no reduce_scatter. Collective over all replicas, which pass equal gradients and the same learning rate.
  /// The gradients keep their values. Arguments, errors and allocations as above.
  void apply(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate,
             const std::source_location& where = std::source_location::current());
  void apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate,
             const std::source_location& where = std::source_location::current());

  /// Handles of the variables of the state, in a fixed order, for checkpoints. Those of slices are synchronized on
  /// read: each replica has its own values. A checkpoint of them can be restored at any number of ranks, but only at
  /// the same number of replicas. Local.
  [[nodiscard]] std::vector<Variable> state() const;

 private:
  struct State;
  Owned<State> state_;
};

}  // namespace lockstep
