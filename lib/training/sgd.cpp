// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/sgd.hpp>

#include "training/zeros_like.hpp"

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace lockstep {
namespace {

// Plain loops over arrays that do not overlap: the compiler vectorises them, and every width gives the same bits.

void descend(std::span<float> parameter, std::span<const float> gradient, float learning_rate) {
  float* __restrict p = parameter.data();
  const float* __restrict g = gradient.data();
  const std::size_t count = parameter.size();
  for (std::size_t i = 0; i < count; ++i) p[i] -= learning_rate * g[i];
}

void descend_with_momentum(std::span<float> parameter, std::span<float> movement, std::span<const float> gradient,
                           float learning_rate, float momentum) {
  float* __restrict p = parameter.data();
  float* __restrict m = movement.data();
  const float* __restrict g = gradient.data();
  const std::size_t count = parameter.size();
  for (std::size_t i = 0; i < count; ++i) {
    m[i] = momentum * m[i] - learning_rate * g[i];
    p[i] += m[i];
  }
}

}  // namespace

Sgd::Sgd(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const SgdOptions& options)
    : parameters_(std::move(parameters)), momentum_(options.momentum) {
  if (!(momentum_ >= 0.0F && momentum_ < 1.0F)) {
    throw Error(Code::invalid_argument,
                fmt::format("Sgd: momentum is {}; it must be at least 0 and below 1", momentum_));
  }
  if (momentum_ > 0.0F) movements_ = detail::zeros_like(strategy, parameters_, "momentum");
}

void Sgd::do_apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate) {
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    replica.update(parameters_[k], [&](std::span<float> parameter) {
      if (movements_.empty()) {
        descend(parameter, gradients[k], learning_rate);
      } else {
        descend_with_momentum(parameter, movements_[k].updatable_component(), gradients[k], learning_rate, momentum_);
      }
    });
  }
}

}  // namespace lockstep
