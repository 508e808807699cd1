// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/cosine_decay.hpp>

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

CosineDecay::CosineDecay(const CosineDecayOptions& options) : options_(options) {
  if (options.steps < 1 || options.warmup_steps < 0 || options.warmup_steps >= options.steps) {
    throw Error(Code::invalid_argument,
                fmt::format("CosineDecay: steps is {}, warmup_steps {}; steps must be at least 1, and warmup_steps at "
                            "least 0 and below steps",
                            options.steps, options.warmup_steps));
  }
  if (!(options.initial >= 0.0F) || !(options.final_share >= 0.0F && options.final_share <= 1.0F)) {
    throw Error(Code::invalid_argument,
                fmt::format("CosineDecay: initial is {}, final_share {}; initial must not be negative, final_share "
                            "between 0 and 1",
                            options.initial, options.final_share));
  }
}

float CosineDecay::at(std::int64_t step) const {
  const double initial = options_.initial;
  if (step < options_.warmup_steps) {
    return static_cast<float>(initial * static_cast<double>(step + 1) / static_cast<double>(options_.warmup_steps));
  }
  const double length = static_cast<double>(options_.steps - options_.warmup_steps);
  const double done = std::min(static_cast<double>(step - options_.warmup_steps) / length, 1.0);
  const double share = options_.final_share;
  return static_cast<float>(initial * (share + (1.0 - share) * 0.5 * (1.0 + std::cos(std::numbers::pi * done))));
}

}  // namespace lockstep
