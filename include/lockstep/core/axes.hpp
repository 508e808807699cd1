// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The axes that a reduction sums over, besides the replicas.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/shape.hpp>

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// A list of axes: none (std::nullopt, or an empty list), one, or several in any order: `0`, `{0, 1}`, a vector.
/// Negative axes count from the end: -1 is the last. Value type.
class LOCKSTEP_API Axes {
 public:
  Axes() = default;
  // NOLINTBEGIN(google-explicit-constructor): axes are written as a number, a list or std::nullopt
  Axes(std::nullopt_t) {}
  Axes(int axis) : axes_{axis} {}
  Axes(std::initializer_list<int> axes) : axes_(axes) {}
  Axes(const std::optional<int>& axis) : axes_(axis ? std::vector<int>{*axis} : std::vector<int>{}) {}
  Axes(const std::vector<int>& axes) : axes_(axes) {}
  Axes(std::span<const int> axes) : axes_(axes.begin(), axes.end()) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool empty() const noexcept { return axes_.empty(); }
  /// The axes in the order in which they were given.
  [[nodiscard]] std::span<const int> list() const noexcept { return axes_; }

  /// A bit set over the axes of `shape`: bit i is set if axis i is in the list. Local. Throws Error(invalid_argument),
  /// whose text begins with `call`, if an axis is out of range for `shape` or is given twice.
  [[nodiscard]] unsigned mask(const Shape& shape, std::string_view call) const;

 private:
  std::vector<int> axes_;
};

/// `axis`, counted from 0: negative axes are counted from the end of `shape`. Local. Throws as Axes::mask.
[[nodiscard]] LOCKSTEP_API int resolve_axis(int axis, const Shape& shape, std::string_view call);

}  // namespace lockstep
