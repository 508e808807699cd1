// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/model.hpp"

#include <functional>
#include <numeric>
#include <stdexcept>

namespace train {

std::int64_t ParameterSpec::element_count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
}

Model::~Model() = default;

std::unique_ptr<Model> make_model(std::string_view name) {
  if (name == "mlp") return make_mlp();
  if (name == "cnn") return make_cnn();
  throw std::invalid_argument("make_model: unknown model \"" + std::string(name) + "\"; give mlp or cnn");
}

}  // namespace train
