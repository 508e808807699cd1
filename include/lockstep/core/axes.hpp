// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The axes of a tensor along which a reduction combines elements, in addition to the replicas.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/shape.hpp>

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// A list of axes of a tensor. Converts from a number (one axis), from a list or a vector (any number of axes, in any
/// order), and from std::nullopt (no axis). Negative axes count from the end: -1 is the last axis. Value type.
class LOCKSTEP_API Axes {
 public:
  Axes();
  // NOLINTBEGIN(google-explicit-constructor): axes are written as a number, a list or std::nullopt
  Axes(std::nullopt_t);
  Axes(int axis);
  Axes(std::initializer_list<int> axes);
  Axes(const std::optional<int>& axis);
  Axes(const std::vector<int>& axes);
  Axes(std::span<const int> axes);
  // NOLINTEND(google-explicit-constructor)
  Axes(const Axes&);
  Axes(Axes&&) noexcept;
  Axes& operator=(const Axes&);
  Axes& operator=(Axes&&) noexcept;
  ~Axes();

  [[nodiscard]] bool empty() const noexcept;
  /// The axes in the order in which they were given.
  [[nodiscard]] std::span<const int> list() const noexcept;

  /// A bit set over the axes of `shape`: bit i is set if axis i is in the list. Local. Throws Error(invalid_argument),
  /// whose text begins with `call`, if an axis is out of range for `shape` or is given twice.
  [[nodiscard]] unsigned mask(const Shape& shape, std::string_view call) const;

 private:
  std::vector<int> axes_;
};

/// The axis that `axis` names, counted from 0; a negative `axis` counts from the end. Local. Throws as Axes::mask.
[[nodiscard]] LOCKSTEP_API int resolve_axis(int axis, const Shape& shape, std::string_view call);

}  // namespace lockstep
