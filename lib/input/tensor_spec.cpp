// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/tensor_spec.hpp>

#include <fmt/format.h>

namespace lockstep {

std::string to_string(const TensorSpec& spec) {
  std::string extents;
  for (const std::optional<std::int64_t>& extent : spec.shape) {
    if (!extents.empty()) extents += ", ";
    extents += extent ? std::to_string(*extent) : "?";
  }
  return fmt::format("{}[{}]", to_string(spec.dtype), extents);
}

}  // namespace lockstep
