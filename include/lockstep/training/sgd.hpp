// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/training/optimizer.hpp>

#include <vector>

namespace lockstep {

struct SgdOptions {
  /// Fraction of the previous update that is added to the next update, in [0, 1). 0: plain gradient descent; no state.
  float momentum = 0.0F;
};

/// Stochastic gradient descent. Without momentum: p -= learning_rate * g. With momentum: m = momentum * m -
/// learning_rate * g, then p += m.
class LOCKSTEP_API Sgd final : public Optimizer {
 public:
  /// Creates the optimizer's state. Collective. `parameters` are variables of `strategy`.
  /// Throws Error(invalid_argument) for a momentum outside [0, 1), and for a parameter that `strategy` did not
  /// create or that appears more than once.
  Sgd(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const SgdOptions& options = {});

 private:
  [[nodiscard]] std::span<const MirroredVariable<float>> do_parameters() const override;
  [[nodiscard]] std::vector<Variable> do_state() const override;
  void do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) override;

  std::vector<MirroredVariable<float>> parameters_;
  std::vector<MirroredVariable<float>> movements_;  // empty if momentum_ is 0
  float momentum_;
};

}  // namespace lockstep
