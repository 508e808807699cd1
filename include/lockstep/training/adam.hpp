// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/training/optimizer.hpp>

#include <cstdint>
#include <vector>

namespace lockstep {

struct AdamOptions {
  /// Decay per step of the running means of gradients (beta_1) and of squared gradients (beta_2), in [0, 1). A value
  /// nearer to 1 gives a smoother mean that reacts more slowly.
  float beta_1 = 0.9F;
  float beta_2 = 0.999F;
  /// Added to the root of the mean square; positive. Bounds the step if gradients vanish.
  float epsilon = 1e-7F;
};

/// Adam (Kingma and Ba 2015), in the paper's more efficient form. With t the number of the step, from 1:
///   m = beta_1 m + (1 - beta_1) g,   v = beta_2 v + (1 - beta_2) g^2,
///   p -= learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon).
class LOCKSTEP_API Adam final : public Optimizer {
 public:
  /// Creates the optimizer's state. Collective. `parameters` are variables of `strategy`.
  /// Throws Error(invalid_argument) for a beta outside [0, 1), an epsilon that is not positive, and a parameter
  /// that `strategy` did not create or that appears more than once.
  Adam(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const AdamOptions& options = {});

 private:
  [[nodiscard]] std::span<const MirroredVariable<float>> do_parameters() const override;
  [[nodiscard]] std::vector<Variable> do_state() const override;
  void do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) override;

  std::vector<MirroredVariable<float>> parameters_;
  std::vector<MirroredVariable<float>> means_;
  std::vector<MirroredVariable<float>> squares_;
  MirroredVariable<std::int64_t> steps_;
  AdamOptions options_;
};

}  // namespace lockstep
