// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/lamb.hpp>

#include "base/check.hpp"
#include "kernels/descent.hpp"
#include "training/norm.hpp"
#include "training/zeros_like.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace lockstep {
namespace {

LambOptions checked(const LambOptions& options) {
  const auto is_decay = [](float beta) { return beta >= 0.0F && beta < 1.0F; };
  if (!is_decay(options.beta_1) || !is_decay(options.beta_2)) {
    detail::throw_error(Code::invalid_argument, "Lamb: beta_1 is {}, beta_2 {}; both must be at least 0 and below 1",
                        options.beta_1, options.beta_2);
  }
  if (!(options.epsilon > 0.0F))
    detail::throw_error(Code::invalid_argument, "Lamb: epsilon is {}; it must be positive", options.epsilon);
  if (!(options.weight_decay >= 0.0F)) {
    detail::throw_error(Code::invalid_argument, "Lamb: weight_decay is {}; it must not be negative",
                        options.weight_decay);
  }
  return options;
}

/// Calls `body(begin, directions)` for piece after piece of the vector of directions, which is never stored as a whole:
/// computing it twice costs less than the memory.
template <class Body>
void for_each_piece(std::span<const float> parameter, std::span<const float> mean, std::span<const float> square,
                    const detail::DirectionFactors& factors, const Body& body) {
  constexpr std::size_t piece = 1024;
  std::array<float, piece> directions;
  for (std::size_t begin = 0; begin < parameter.size(); begin += piece) {
    const std::size_t count = std::min(piece, parameter.size() - begin);
    const auto part = std::span(directions).first(count);
    detail::direction(part, parameter.subspan(begin, count), mean.subspan(begin, count), square.subspan(begin, count),
                      factors);
    body(begin, std::span<const float>(part));
  }
}

/// |parameter| / |direction|, or 1 where one of them is 0.
float trust_ratio(std::span<const float> parameter, const detail::SquareSum& directions) {
  detail::SquareSum parameters;
  parameters.add(parameter);
  const double upper = std::sqrt(parameters.total());
  const double lower = std::sqrt(directions.total());
  return upper > 0 && lower > 0 ? static_cast<float>(upper / lower) : 1.0F;
}

}  // namespace

Lamb::Lamb(Strategy& strategy, std::vector<MirroredVariable<float>> parameters, const LambOptions& options)
    : parameters_(std::move(parameters)),
      means_(detail::zeros_like(strategy, parameters_, "mean")),
      squares_(detail::zeros_like(strategy, parameters_, "square")),
      steps_(strategy.variable<std::int64_t>(0, {.name = "lamb/steps", .trainable = false})),
      options_(checked(options)) {}

std::vector<Variable> Lamb::do_state() const {
  std::vector<Variable> state(means_.begin(), means_.end());
  state.insert(state.end(), squares_.begin(), squares_.end());
  state.push_back(steps_);
  return state;
}

void Lamb::do_apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate) {
  const auto step =
      replica.update(steps_, [](std::span<std::int64_t> steps) { return static_cast<double>(++steps.front()); });
  // in f64: 1 - beta^t loses all its digits in f32 for the first steps of a beta near 1
  const auto correction = [step](float beta) { return static_cast<float>(1.0 - std::pow(double{beta}, step)); };
  const detail::DirectionFactors factors{correction(options_.beta_1), correction(options_.beta_2), options_.epsilon,
                                         options_.weight_decay};
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    replica.update(parameters_[k], [&](std::span<float> parameter) {
      const auto mean = means_[k].updatable_component();
      const auto square = squares_[k].updatable_component();
      detail::adapt_moments(mean, square, gradients[k], options_.beta_1, options_.beta_2);
      detail::SquareSum directions;
      for_each_piece(parameter, mean, square, factors,
                     [&](std::size_t, std::span<const float> part) { directions.add(part); });
      const float rate = learning_rate * trust_ratio(parameter, directions);
      for_each_piece(parameter, mean, square, factors, [&](std::size_t begin, std::span<const float> part) {
        detail::descend(parameter.subspan(begin, part.size()), part, rate);
      });
    });
  }
}

}  // namespace lockstep
