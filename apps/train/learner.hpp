// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The state of training: parameters in the strategy, and one model with gradients per replica.

#pragma once

#include "train/model.hpp"
#include "train/options.hpp"
#include "train/staging.hpp"

#include <lockstep/lockstep.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace train {

/// Makes the model of a replica on the given device; called concurrently for several replicas.
using ModelMaker = std::function<std::unique_ptr<Model>(lockstep::Device)>;

/// The model of one replica, and its gradients and loss on the replica's device.
class Learner {
 public:
  Learner(const ModelMaker& make_model, const lockstep::ReplicaContext& replica);

  /// Batches reside where the model computes.
  ///
  /// Computes this replica's share of the gradients of the mean loss over a batch of `global_batch` rows, and of the
  /// loss. Calls `ready` with the number of each contribution once it is final, in their order; the loss is final on
  /// return.
  void differentiate(const std::vector<lockstep::MirroredVariable<float>>& parameters, const lockstep::Tensor& images,
                     const lockstep::Tensor& labels, std::int64_t global_batch, const GradientsReady& ready);
  [[nodiscard]] std::int64_t correct(const std::vector<lockstep::MirroredVariable<float>>& parameters,
                                     const lockstep::Tensor& images, const lockstep::Tensor& labels);

  /// The gradients in the order in which they are computed, from the last parameter to the first, then the loss.
  [[nodiscard]] const std::vector<lockstep::TensorView>& contributions() const { return contributions_; }
  /// The gradients in the order of the parameters.
  [[nodiscard]] std::span<const lockstep::TensorView> gradients() const { return gradients_; }
  [[nodiscard]] double loss() const { return loss_.received().elements<double>().front(); }
  [[nodiscard]] const Model& model() const { return *model_; }

 private:
  [[nodiscard]] std::span<const float* const> addresses(
      const std::vector<lockstep::MirroredVariable<float>>& parameters);

  std::unique_ptr<Model> model_;
  // Arrays in host memory are aligned to 64 bytes: vectorised arithmetic changes bits with the alignment.
  std::vector<HostCopy> parameters_;
  std::vector<const float*> parameter_addresses_;
  std::vector<StagedArray> arrays_;  // gradients
  std::vector<float*> gradient_addresses_;
  StagedArray loss_;
  std::vector<lockstep::TensorView> gradients_;
  std::vector<lockstep::TensorView> contributions_;
};

/// The contributions of this rank's replicas, one list each.
[[nodiscard]] std::vector<std::vector<lockstep::TensorView>> contributions_of(
    const lockstep::PerReplica<Learner>& learners);

/// The model's parameters as mirrored variables, with normal values that depend on the seed alone. Collective.
[[nodiscard]] std::vector<lockstep::MirroredVariable<float>> make_parameters(lockstep::Strategy& strategy,
                                                                             const Model& model, std::uint64_t seed);

[[nodiscard]] std::unique_ptr<lockstep::Optimizer> make_optimizer(
    const Options& options, lockstep::Strategy& strategy,
    const std::vector<lockstep::MirroredVariable<float>>& parameters);

}  // namespace train
