// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/shape.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail {

/// A copy of `shape` whose extent along `axis`, which must exist, is `extent`.
[[nodiscard]] inline Shape with_extent(const Shape& shape, int axis, std::int64_t extent) {
  std::array<std::int64_t, Shape::max_rank> extents{};
  std::copy(shape.extents().begin(), shape.extents().end(), extents.begin());
  extents[static_cast<std::size_t>(axis)] = extent;
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape.rank())));
}

}  // namespace lockstep::detail
