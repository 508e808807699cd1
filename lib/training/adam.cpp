// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/adam.hpp>

#include <lockstep/collectives/detail/propagate.hpp>

#include "training/adam_factors.hpp"
#include "training/optimizer_state.hpp"
#include "training/steps.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace lockstep {

Adam::Adam(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const AdamOptions& options) try
    : parameters_(detail::checked_parameters("Adam", strategy, std::move(parameters))),
      means_(detail::zeros_like(strategy, parameters_, "mean")),
      squares_(detail::zeros_like(strategy, parameters_, "square")),
      steps_(strategy.variable<std::int64_t>(0, {.name = "adam/steps", .trainable = false, .in_host_memory = true})),
      options_(options) {
  detail::check_moments("Adam", options_);
} catch (const std::bad_alloc&) {  // of which the other ranks do not know
  detail::propagate_current_exception(strategy.communicator(), detail::FoundBy::this_rank);
}

std::span<const MirroredVariable<float>> Adam::do_parameters() const { return parameters_; }

std::vector<Variable> Adam::do_state() const {
  std::vector<Variable> state(means_.begin(), means_.end());
  state.insert(state.end(), squares_.begin(), squares_.end());
  state.push_back(steps_);
  return state;
}

void Adam::do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) {
  const auto step = replica.update(
      steps_, [](const auto& steps) { return static_cast<double>(++steps.updatable_component().front()); });
  const detail::AdamFactors factors = detail::adam_factors(options_, learning_rate, step);
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    replica.update(parameters_[k], [&](const Variable& variable) {
      const TensorView parameter = variable.updatable_component();
      const detail::GradientOnDevice gradient(gradients[k], parameter.device);
      detail::adam_step(parameter, detail::copy_to_write(means_[k]), detail::copy_to_write(squares_[k]),
                        gradient.view(), factors);
    });
  }
}

}  // namespace lockstep
