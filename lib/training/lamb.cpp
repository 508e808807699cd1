// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/lamb.hpp>

#include <lockstep/collectives/detail/propagate.hpp>

#include "base/check.hpp"
#include "device/host/host_elements.hpp"
#include "training/norm.hpp"
#include "training/optimizer_state.hpp"
#include "training/steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <new>
#include <utility>

namespace lockstep {
namespace {

LambOptions checked(const LambOptions& options) {
  detail::check_moments("Lamb", options);
  if (!(options.weight_decay >= 0.0F)) {
    detail::throw_error(Code::invalid_argument, "Lamb: weight_decay is {}; it must not be negative",
                        options.weight_decay);
  }
  return options;
}

/// Calls `body(begin, directions)` for consecutive segments of the vector of update directions. The whole vector is
/// never stored: computing the directions twice costs less than the memory traffic.
template <class Body>
void for_each_piece(std::span<const float> parameter, std::span<const float> mean, std::span<const float> square,
                    const detail::LambFactors& factors, const Body& body) {
  constexpr std::size_t piece = 1024;
  std::array<float, piece> directions;
  for (std::size_t begin = 0; begin < parameter.size(); begin += piece) {
    const std::size_t count = std::min(piece, parameter.size() - begin);
    const auto part = std::span(directions).first(count);
    detail::lamb_direction(part, parameter.subspan(begin, count), mean.subspan(begin, count),
                           square.subspan(begin, count), factors);
    body(begin, std::span<const float>(part));
  }
}

/// The quotient of the norms |parameter| / |directions|, or 1 if either norm is 0.
float trust_ratio(std::span<const float> parameter, const detail::SquareSum& directions) {
  detail::SquareSum parameters;
  parameters.add(parameter);
  const double upper = std::sqrt(parameters.total());
  const double lower = std::sqrt(directions.total());
  return upper > 0 && lower > 0 ? static_cast<float>(upper / lower) : 1.0F;
}

std::span<float> written(const TensorView& view) {
  return {static_cast<float*>(view.data), static_cast<std::size_t>(view.element_count())};
}

void step_in_host_memory(std::span<float> parameter, std::span<const float> mean, std::span<const float> square,
                         const detail::LambFactors& factors, float learning_rate) {
  detail::SquareSum directions;
  for_each_piece(parameter, mean, square, factors,
                 [&](std::size_t, std::span<const float> part) { directions.add(part); });
  const float rate = learning_rate * trust_ratio(parameter, directions);
  for_each_piece(parameter, mean, square, factors, [&](std::size_t begin, std::span<const float> part) {
    detail::sgd_step(parameter.subspan(begin, part.size()), part, rate);
  });
}

/// Copies the parameter and the directions to the host, where SquareSum adds their squares in the same order as for
/// host memory.
void step_on_gpu(const TensorView& parameter, const TensorView& mean, const TensorView& square,
                 const detail::LambFactors& factors, float learning_rate) {
  Tensor directions = Tensor::uninitialized(DType::f32, parameter.shape, nullptr, parameter.device);
  detail::lamb_direction(directions.view(), parameter, mean, square, factors);
  detail::SquareSum squares;
  squares.add(detail::HostElements(directions.view()).elements<float>());
  const float rate = learning_rate * trust_ratio(detail::HostElements(parameter).elements<float>(), squares);
  detail::sgd_step(parameter, directions.view(), rate);
}

}  // namespace

Lamb::Lamb(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const LambOptions& options) try
    : parameters_(detail::checked_parameters("Lamb", strategy, std::move(parameters))),
      means_(detail::zeros_like(strategy, parameters_, "mean")),
      squares_(detail::zeros_like(strategy, parameters_, "square")),
      steps_(strategy.variable<std::int64_t>(0, {.name = "lamb/steps", .trainable = false, .in_host_memory = true})),
      options_(checked(options)) {
} catch (const std::bad_alloc&) {  // of which the other ranks do not know
  detail::propagate_current_exception(strategy.communicator(), detail::FoundBy::this_rank);
}

std::span<const MirroredVariable<float>> Lamb::do_parameters() const { return parameters_; }

std::vector<Variable> Lamb::do_state() const {
  std::vector<Variable> state(means_.begin(), means_.end());
  state.insert(state.end(), squares_.begin(), squares_.end());
  state.push_back(steps_);
  return state;
}

void Lamb::do_apply(ReplicaContext& replica, const GradientList& gradients, float learning_rate) {
  const auto step = replica.update(
      steps_, [](const auto& steps) { return static_cast<double>(++steps.updatable_component().front()); });
  // in f64, because in f32 the difference 1 - beta^t loses all its digits if beta is near 1 and t is small
  const auto correction = [step](float beta) { return static_cast<float>(1.0 - std::pow(double{beta}, step)); };
  const detail::LambFactors factors{correction(options_.beta_1), correction(options_.beta_2), options_.epsilon,
                                    options_.weight_decay};
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    replica.update(parameters_[k], [&](const Variable& variable) {
      const TensorView parameter = variable.updatable_component();
      const TensorView mean = detail::copy_to_write(means_[k]);
      const TensorView square = detail::copy_to_write(squares_[k]);
      const detail::GradientOnDevice gradient(gradients[k], parameter.device);
      detail::adam_moments(mean, square, gradient.view(), options_.beta_1, options_.beta_2);
      if (detail::is_on_host(parameter.device)) {
        step_in_host_memory(written(parameter), written(mean), written(square), factors, learning_rate);
      } else {
        step_on_gpu(parameter, mean, square, factors, learning_rate);
      }
    });
  }
}

}  // namespace lockstep
