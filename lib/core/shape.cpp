// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/shape.hpp>

#include "base/check.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace lockstep {

Shape::Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) {
  if (extents.size() > static_cast<std::size_t>(max_rank)) {
    detail::throw_error(Code::invalid_argument, "shape [{}] has {} axes, more than the maximum of {}",
                        fmt::join(extents, ", "), extents.size(), max_rank);
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 0) {
      detail::throw_error(Code::invalid_argument, "shape [{}] has the extent {}; extents must not be negative",
                          fmt::join(extents, ", "), extent);
    }
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(extent, 1), &count)) {
      detail::throw_error(Code::invalid_argument, "shape [{}] has more than the maximum of 2^63 - 1 elements",
                          fmt::join(extents, ", "));
    }
  }
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<int>(extents.size());
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.extents(), ", ")); }

}  // namespace lockstep
