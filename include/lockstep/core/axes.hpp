// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which axes of its components a reduction sums over.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/shape.hpp>

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// No axis (std::nullopt, or an empty list), one, or several in any order: `0`, `{0, 1}`, a vector. Negative ones count
/// from the end: -1 is the last. A value.
class LOCKSTEP_API Axes {
 public:
  Axes() = default;
  // NOLINTBEGIN(google-explicit-constructor): a number, a list or std::nullopt stand for themselves
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

  /// One bit for each axis of `shape`, bit i for axis i: those that are named. Local. Throws Error(invalid_argument),
  /// which begins with `call`, for an axis that `shape` has not, or that is named twice.
  [[nodiscard]] unsigned mask(const Shape& shape, std::string_view call) const;

 private:
  std::vector<int> axes_;
};

/// `axis` counted from 0. Local. Throws as Axes::mask.
[[nodiscard]] LOCKSTEP_API int resolve_axis(int axis, const Shape& shape, std::string_view call);

}  // namespace lockstep
