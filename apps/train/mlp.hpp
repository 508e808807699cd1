// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The definition of the mlp, on hosts and GPUs: hidden = relu(images W1 + b1), logits = hidden W2 + b2. Weights are
// stored as [inputs, outputs], which makes the two large products (images W1, and images^T d_hidden) the layouts that
// need no transposition of a large operand on the way in.

#pragma once

#include "train/model.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace train {

inline constexpr std::int64_t hidden_units = 256;

/// The order of its parameters.
enum MlpParameter : std::size_t { hidden_weights, hidden_bias, output_weights, output_bias };
using MlpParameters = std::array<ParameterSpec, 4>;

[[nodiscard]] inline MlpParameters mlp_parameters() {
  return {{
      {"hidden/weights", {image_pixels, hidden_units}, std::sqrt(2.0F / static_cast<float>(image_pixels))},
      {"hidden/bias", {hidden_units}, 0},
      {"output/weights", {hidden_units, num_classes}, std::sqrt(2.0F / static_cast<float>(hidden_units + num_classes))},
      {"output/bias", {num_classes}, 0},
  }};
}

}  // namespace train
