// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/optimizer.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "training/optimizer_state.hpp"

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

namespace lockstep {

Optimizer::~Optimizer() = default;

std::vector<MirroredVariable<float>> detail::checked_parameters(std::string_view optimizer, Strategy& strategy,
                                                                std::vector<MirroredVariable<float>> parameters) {
  std::unordered_set<Variable> seen;
  for (const Variable& parameter : parameters) {
    if (!strategy.extended().variable_created_in_scope(parameter)) {
      throw_error(Code::invalid_argument,
                  "{}: variable \"{}\" of parameters was not created by strategy; pass the strategy that created it",
                  optimizer, parameter.name());
    }
    if (!seen.insert(parameter).second) {
      throw_error(
          Code::invalid_argument,
          "{}: variable \"{}\" appears more than once in parameters; list it once, and pass the sum of its gradients",
          optimizer, parameter.name());
    }
  }
  return parameters;
}

void detail::check_gradients(std::span<const MirroredVariable<float>> parameters, const GradientList& gradients,
                             float learning_rate, std::string_view call) {
  if (!std::isfinite(learning_rate)) {
    throw Error(Code::invalid_argument,
                fmt::format("{}: learning_rate is {}; pass a finite number", call, learning_rate));
  }
  if (gradients.size() != parameters.size()) {
    throw Error(Code::invalid_argument, fmt::format("{}: {} for {}; pass one gradient for each parameter, in the same "
                                                    "order",
                                                    call, detail::counted(gradients.size(), "gradient"),
                                                    detail::counted(parameters.size(), "parameter")));
  }
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const ConstTensorView gradient = gradients[k];
    if (gradient.element_count() != parameters[k].element_count()) {
      throw Error(Code::invalid_argument,
                  fmt::format("{}: gradient {} has {}, but its parameter \"{}\" has {}; pass the gradients in "
                              "the order of the parameters",
                              call, k, detail::counted(gradient.element_count(), "element"), parameters[k].name(),
                              parameters[k].element_count()));
    }
    if (gradient.dtype != DType::f32) {
      throw Error(Code::invalid_argument,
                  fmt::format("{}: gradient {} is {}, but its parameter \"{}\" is f32; all gradients must be f32", call,
                              k, to_string(gradient.dtype), parameters[k].name()));
    }
  }
}

void Optimizer::check_arguments(const GradientList& gradients, float learning_rate, std::string_view call) const {
  detail::check_gradients(do_parameters(), gradients, learning_rate, call);
}

void Optimizer::apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate) {
  const GradientList list(gradients);
  check_arguments(list, learning_rate, "apply");
  do_apply(replica, list, learning_rate);
}

void Optimizer::apply(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate) {
  const GradientList list(gradients);
  check_arguments(list, learning_rate, "apply");
  do_apply(replica, list, learning_rate);
}

void Optimizer::apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients,
                                float learning_rate, ReduceOp op, const std::source_location& where) {
  const GradientList list{std::span<const std::span<float>>(gradients)};
  check_arguments(list, learning_rate, "apply_gradients");
  replica.all_reduce(op, gradients, {.where = where});
  do_apply(replica, list, learning_rate);
}

void Optimizer::apply_gradients(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate,
                                ReduceOp op, const std::source_location& where) {
  const GradientList list(gradients);
  check_arguments(list, learning_rate, "apply_gradients");
  replica.all_reduce(op, gradients, {.where = where});
  do_apply(replica, list, learning_rate);
}

}  // namespace lockstep
