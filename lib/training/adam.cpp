// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/adam.hpp>

#include "kernels/descent.hpp"
#include "training/zeros_like.hpp"

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>

namespace lockstep {
namespace {

void check(const AdamOptions& options) {
  const auto is_decay = [](float beta) { return beta >= 0.0F && beta < 1.0F; };
  if (!is_decay(options.beta_1) || !is_decay(options.beta_2)) {
    throw Error(Code::invalid_argument,
                fmt::format("Adam: beta_1 is {}, beta_2 {}; both must be at least 0 and below 1", options.beta_1,
                            options.beta_2));
  }
  if (!(options.epsilon > 0.0F))
    throw Error(Code::invalid_argument, fmt::format("Adam: epsilon is {}; it must be positive", options.epsilon));
}

}  // namespace

Adam::Adam(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const AdamOptions& options)
    : parameters_(std::move(parameters)),
      means_(detail::zeros_like(strategy, parameters_, "mean")),
      squares_(detail::zeros_like(strategy, parameters_, "square")),
      steps_(strategy.variable<std::int64_t>(0, {.name = "adam/steps", .trainable = false})),
      options_(options) {
  check(options_);
}

std::vector<Variable> Adam::do_state() const {
  std::vector<Variable> state(means_.begin(), means_.end());
  state.insert(state.end(), squares_.begin(), squares_.end());
  state.push_back(steps_);
  return state;
}

void Adam::do_apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate) {
  const auto step =
      replica.update(steps_, [](std::span<std::int64_t> steps) { return static_cast<double>(++steps.front()); });
  // in f64: 1 - beta^t loses all its digits in f32 for the first steps of a beta near 1
  const double correction = std::sqrt(1.0 - std::pow(static_cast<double>(options_.beta_2), step)) /
                            (1.0 - std::pow(static_cast<double>(options_.beta_1), step));
  const float rate = static_cast<float>(static_cast<double>(learning_rate) * correction);
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    replica.update(parameters_[k], [&](std::span<float> parameter) {
      detail::adapt(parameter, means_[k].updatable_component(), squares_[k].updatable_component(), gradients[k],
                    {rate, options_.beta_1, options_.beta_2, options_.epsilon});
    });
  }
}

}  // namespace lockstep
