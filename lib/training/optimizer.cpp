// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/optimizer.hpp>

#include <lockstep/base/error.hpp>

#include <fmt/format.h>

namespace lockstep {

Optimizer::~Optimizer() = default;

void Optimizer::check_gradients(std::span<const std::span<float>> gradients) const {
  const auto parameters = do_parameters();
  if (gradients.size() != parameters.size()) {
    throw Error(Code::invalid_argument,
                fmt::format("optimizer apply: {} gradients for {} parameters; give one for each, in their order",
                            gradients.size(), parameters.size()));
  }
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    if (static_cast<std::int64_t>(gradients[k].size()) != parameters[k].element_count()) {
      throw Error(Code::invalid_argument,
                  fmt::format("optimizer apply: gradient {} has {} elements, but parameter \"{}\" has {}", k,
                              gradients[k].size(), parameters[k].name(), parameters[k].element_count()));
    }
  }
}

void Optimizer::apply(ReplicaContext& replica, std::span<const std::span<float>> gradients, float learning_rate) {
  check_gradients(gradients);
  do_apply(replica, gradients, learning_rate);
}

void Optimizer::apply_gradients(ReplicaContext& replica, const std::vector<std::span<float>>& gradients,
                                float learning_rate, ReduceOp op) {
  check_gradients(gradients);
  replica.all_reduce(op, gradients);
  do_apply(replica, gradients, learning_rate);
}

}  // namespace lockstep
