// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/sgd.hpp>

#include <lockstep/collectives/detail/propagate.hpp>

#include "training/optimizer_state.hpp"
#include "training/steps.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace lockstep {
Sgd::Sgd(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const SgdOptions& options) try
    : parameters_(detail::checked_parameters("Sgd", strategy, std::move(parameters))), momentum_(options.momentum) {
  detail::check_momentum("Sgd", momentum_);
  if (momentum_ > 0.0F) movements_ = detail::zeros_like(strategy, parameters_, "momentum");
} catch (const std::bad_alloc&) {  // of which the other ranks do not know
  detail::propagate_current_exception(strategy.communicator(), detail::FoundBy::this_rank);
}

std::span<const MirroredVariable<float>> Sgd::do_parameters() const { return parameters_; }

std::vector<Variable> Sgd::do_state() const { return {movements_.begin(), movements_.end()}; }

void Sgd::do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) {
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    replica.update(parameters_[k], [&](const Variable& variable) {
      const TensorView parameter = variable.updatable_component();
      const detail::GradientOnDevice gradient(gradients[k], parameter.device);
      if (movements_.empty()) {
        detail::sgd_step(parameter, gradient.view(), learning_rate);
      } else {
        detail::momentum_step(parameter, detail::copy_to_write(movements_[k]), gradient.view(), learning_rate,
                              momentum_);
      }
    });
  }
}

}  // namespace lockstep
