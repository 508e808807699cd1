// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/optimizer.hpp>

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

namespace lockstep {

Optimizer::~Optimizer() = default;

void Optimizer::check_gradients(const GradientList& gradients) const {
  const auto parameters = do_parameters();
  if (gradients.size() != parameters.size()) {
    throw Error(
        Code::invalid_argument,
        fmt::format(
            "optimizer apply: {} gradients for {} parameters; there must be one per parameter, in the same order",
            gradients.size(), parameters.size()));
  }
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const ConstTensorView gradient = gradients[k];
    if (gradient.element_count() != parameters[k].element_count()) {
      throw Error(Code::invalid_argument,
                  fmt::format("optimizer apply: gradient {} has {} elements, but parameter \"{}\" has {}", k,
                              gradient.element_count(), parameters[k].name(), parameters[k].element_count()));
    }
    if (gradient.dtype != DType::f32) {
      throw Error(Code::invalid_argument, fmt::format("optimizer apply: gradient {} is {}, but parameter \"{}\" is f32",
                                                      k, to_string(gradient.dtype), parameters[k].name()));
    }
  }
}

void Optimizer::apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate) {
  const GradientList list(gradients);
  check_gradients(list);
  do_apply(replica, list, learning_rate);
}

void Optimizer::apply(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate) {
  const GradientList list(gradients);
  check_gradients(list);
  do_apply(replica, list, learning_rate);
}

void Optimizer::apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients,
                                float learning_rate, ReduceOp op) {
  const GradientList list{std::span<const std::span<float>>(gradients)};
  check_gradients(list);
  replica.all_reduce(op, gradients);
  do_apply(replica, list, learning_rate);
}

void Optimizer::apply_gradients(ReplicaContext& replica, std::span<const TensorView> gradients, float learning_rate,
                                ReduceOp op) {
  const GradientList list(gradients);
  check_gradients(list);
  replica.all_reduce(op, gradients);
  do_apply(replica, list, learning_rate);
}

}  // namespace lockstep
