// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/adam.hpp>

#include "training/optimizer_state.hpp"
#include "training/steps.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

namespace lockstep {

Adam::Adam(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const AdamOptions& options)
    : parameters_(detail::checked_parameters("Adam", strategy, std::move(parameters))),
      means_(detail::zeros_like(strategy, parameters_, "mean")),
      squares_(detail::zeros_like(strategy, parameters_, "square")),
      steps_(strategy.variable<std::int64_t>(0, {.name = "adam/steps", .trainable = false, .in_host_memory = true})),
      options_(options) {
  detail::check_moments("Adam", options_);
}

std::vector<Variable> Adam::do_state() const {
  std::vector<Variable> state(means_.begin(), means_.end());
  state.insert(state.end(), squares_.begin(), squares_.end());
  state.push_back(steps_);
  return state;
}

void Adam::do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) {
  const auto step =
      replica.update(steps_, [](std::span<std::int64_t> steps) { return static_cast<double>(++steps.front()); });
  // in f64, because in f32 the difference 1 - beta^t loses all its digits if beta is near 1 and t is small
  const double correction = std::sqrt(1.0 - std::pow(static_cast<double>(options_.beta_2), step)) /
                            (1.0 - std::pow(static_cast<double>(options_.beta_1), step));
  const float rate = static_cast<float>(static_cast<double>(learning_rate) * correction);
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    replica.update(static_cast<const Variable&>(parameters_[k]), [&](const TensorView& parameter) {
      const detail::GradientOnDevice gradient(gradients[k], parameter.device);
      detail::adam_step(parameter, detail::copy_to_write(means_[k]), detail::copy_to_write(squares_[k]),
                        gradient.view(), {rate, options_.beta_1, options_.beta_2, options_.epsilon});
    });
  }
}

}  // namespace lockstep
