// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/optimizer_step.hpp"

#include <lockstep/training/adam.hpp>

#include <cmath>

namespace lockstep::detail {

/// The factors of step number `step` of Adam, from 1.
[[nodiscard]] inline AdamFactors adam_factors(const AdamOptions& options, float learning_rate, double step) {
  // in f64, because in f32 the difference 1 - beta^t loses all its digits if beta is near 1 and t is small
  const double correction = std::sqrt(1.0 - std::pow(static_cast<double>(options.beta_2), step)) /
                            (1.0 - std::pow(static_cast<double>(options.beta_1), step));
  const float rate = static_cast<float>(static_cast<double>(learning_rate) * correction);
  return {rate, options.beta_1, options.beta_2, options.epsilon};
}

}  // namespace lockstep::detail
