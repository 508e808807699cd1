// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/axes.hpp>

#include "base/check.hpp"

namespace lockstep {

int resolve_axis(int axis, const Shape& shape, std::string_view call) {
  const int resolved = axis < 0 ? axis + shape.rank() : axis;
  if (resolved < 0 || resolved >= shape.rank()) {
    if (shape.rank() == 0) {
      detail::throw_error(Code::invalid_argument,
                          "{}: axis is {}, but the value is a scalar, which has no axes; give no axis", call, axis);
    }
    detail::throw_error(Code::invalid_argument,
                        "{}: axis {} is out of range for a value of shape {} with {} axes; it must be from {} to {}",
                        call, axis, to_string(shape), shape.rank(), -shape.rank(), shape.rank() - 1);
  }
  return resolved;
}

Axes::Axes() = default;
Axes::Axes(std::nullopt_t) {}
Axes::Axes(int axis) : axes_{axis} {}
Axes::Axes(std::initializer_list<int> axes) : axes_(axes) {}
Axes::Axes(const std::optional<int>& axis) : axes_(axis ? std::vector<int>{*axis} : std::vector<int>{}) {}
Axes::Axes(const std::vector<int>& axes) : axes_(axes) {}
Axes::Axes(std::span<const int> axes) : axes_(axes.begin(), axes.end()) {}
Axes::Axes(const Axes&) = default;
Axes::Axes(Axes&&) noexcept = default;
Axes& Axes::operator=(const Axes&) = default;
Axes& Axes::operator=(Axes&&) noexcept = default;
Axes::~Axes() = default;

bool Axes::empty() const noexcept { return axes_.empty(); }

std::span<const int> Axes::list() const noexcept { return axes_; }

unsigned Axes::mask(const Shape& shape, std::string_view call) const {
  unsigned result = 0;
  for (const int axis : axes_) {
    const unsigned bit = 1U << static_cast<unsigned>(resolve_axis(axis, shape, call));
    if ((result & bit) != 0) {
      detail::throw_error(Code::invalid_argument,
                          "{}: axis {} of a value of shape {} is given twice; give each axis once", call, axis,
                          to_string(shape));
    }
    result |= bit;
  }
  return result;
}

}  // namespace lockstep
