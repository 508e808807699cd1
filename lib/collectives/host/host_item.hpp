// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One tensor of a host collective, checked.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>

#include <cstdint>
#include <vector>

namespace lockstep::detail {

struct HostItem {
  DType dtype = DType::f32;         ///< of the inputs
  Shape shape;                      ///< of one input
  std::vector<const void*> inputs;  ///< one per local replica
  std::vector<void*> outputs;
  [[nodiscard]] std::int64_t count() const noexcept { return shape.element_count(); }
};

}  // namespace lockstep::detail
