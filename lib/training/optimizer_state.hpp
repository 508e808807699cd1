// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The state that optimizers keep beside the parameters, and the checks of the factors of running means.

#pragma once

#include "base/check.hpp"

#include <lockstep/device/tensor.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/training/optimizer.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// Returns `parameters`. Throws Error(invalid_argument), whose text begins with `optimizer`, unless `strategy` created
/// all of them and each is a different variable.
[[nodiscard]] std::vector<MirroredVariable<float>> checked_parameters(std::string_view optimizer, Strategy& strategy,
                                                                      std::vector<MirroredVariable<float>> parameters);

/// Creates a variable of zeros per parameter for the optimizer's state, named `<parameter>/<slot>` and not trainable.
/// Collective.
inline std::vector<MirroredVariable<float>> zeros_like(Strategy& strategy,
                                                       const std::vector<MirroredVariable<float>>& parameters,
                                                       std::string_view slot) {
  std::vector<MirroredVariable<float>> zeros;
  for (const auto& parameter : parameters) {
    zeros.push_back(strategy.variable<float>(Tensor(DType::f32, parameter.shape()),
                                             {.name = parameter.name() + "/" + std::string(slot), .trainable = false}));
  }
  return zeros;
}

/// Throws Error(invalid_argument), whose text begins with `call`, unless there is one f32 gradient with the right
/// number of elements for each parameter, and the learning rate is a finite number.
void check_gradients(std::span<const MirroredVariable<float>> parameters, const GradientList& gradients,
                     float learning_rate, std::string_view call);

/// Throws Error(invalid_argument) unless `momentum` is in [0, 1).
inline void check_momentum(std::string_view optimizer, float momentum) {
  if (momentum >= 0.0F && momentum < 1.0F) return;
  throw_error(Code::invalid_argument, "{}: momentum is {}; it must be at least 0 and below 1", optimizer, momentum);
}

/// Throws Error(invalid_argument) unless the betas are in [0, 1) and epsilon is positive.
template <class Options>
void check_moments(std::string_view optimizer, const Options& options) {
  const auto is_decay = [](float beta) { return beta >= 0.0F && beta < 1.0F; };
  if (!is_decay(options.beta_1) || !is_decay(options.beta_2)) {
    throw_error(Code::invalid_argument, "{}: beta_1 is {}, beta_2 {}; both must be at least 0 and below 1", optimizer,
                options.beta_1, options.beta_2);
  }
  if (!(options.epsilon > 0.0F))
    throw_error(Code::invalid_argument, "{}: epsilon is {}; it must be positive", optimizer, options.epsilon);
}

}  // namespace lockstep::detail
