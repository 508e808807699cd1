// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/device/tensor.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// One zero variable, not trainable, for each parameter: what optimizers keep beside it, called `<parameter>/<slot>`.
/// Collective.
inline std::vector<MirroredVariable<float>> zeros_like(Strategy& strategy,
                                                       const std::vector<MirroredVariable<float>>& parameters,
                                                       std::string_view slot) {
  std::vector<MirroredVariable<float>> zeros;
  for (const auto& parameter : parameters) {
    zeros.push_back(strategy.variable<float>(Tensor(DType::f32, parameter.shape()),
                                             {.name = parameter.name() + "/" + std::string(slot), .trainable = false}));
  }
  return zeros;
}

}  // namespace lockstep::detail
