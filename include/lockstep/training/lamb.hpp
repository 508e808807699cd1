// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/training/optimizer.hpp>

#include <cstdint>
#include <vector>

namespace lockstep {

struct LambOptions {
  /// Decay per step of the running means of gradients (beta_1) and of squared gradients (beta_2), in [0, 1). A value
  /// nearer to 1 gives a smoother mean that reacts more slowly.
  float beta_1 = 0.9F;
  float beta_2 = 0.999F;
  /// Added to the root of the mean square; positive. Bounds the step if gradients vanish.
  float epsilon = 1e-6F;
  /// Factor of the parameter p in the direction d (see Lamb); not negative. 0: no decay.
  float weight_decay = 0.0F;
};

/// LAMB (You et al., "Large batch optimization for deep learning", 2020), for large global batches: the direction of
/// Adam, scaled for each variable to the norm of the variable. With t the number of the step, from 1:
///   m = beta_1 m + (1 - beta_1) g,   v = beta_2 v + (1 - beta_2) g^2,
///   d = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon) + weight_decay p,
///   p -= learning_rate * |p| / |d| * d,   where |p| / |d| is replaced by 1 if either norm is 0.
/// Unlike with the other optimizers, the division of parameters into variables matters: each variable is one layer.
/// Norms are summed in f64 in one fixed order, so the norms are the same for every layout and processor. If parameters
/// are on a GPU, the norms are computed on the host, which costs a copy of the parameter and of d to the host per step.
class LOCKSTEP_API Lamb final : public Optimizer {
 public:
  /// Creates the optimizer's state. Collective. `parameters` are variables of `strategy`.
  /// Throws Error(invalid_argument) for a beta outside [0, 1), an epsilon that is not positive, a negative decay,
  /// and a parameter that `strategy` did not create or that appears more than once.
  Lamb(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const LambOptions& options = {});

 private:
  [[nodiscard]] std::span<const MirroredVariable<float>> do_parameters() const override;
  [[nodiscard]] std::vector<Variable> do_state() const override;
  void do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) override;

  std::vector<MirroredVariable<float>> parameters_;
  std::vector<MirroredVariable<float>> means_;
  std::vector<MirroredVariable<float>> squares_;
  MirroredVariable<std::int64_t> steps_;
  LambOptions options_;
};

}  // namespace lockstep
