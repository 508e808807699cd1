// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The extents of a dense, row-major tensor.

#pragma once

#include <lockstep/base/export.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace lockstep {

/// A list of up to `max_rank` extents, stored inline: a Shape never allocates. A scalar has rank 0 and one element.
class LOCKSTEP_API Shape {
 public:
  static constexpr int max_rank = 8;

  /// A scalar.
  constexpr Shape() noexcept = default;
  /// Throws Error(invalid_argument) if an extent is negative, if there are more than `max_rank` extents, or if the
  /// element count exceeds 2^63 - 1.
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  /// Number of axes.
  [[nodiscard]] constexpr int rank() const noexcept { return rank_; }
  [[nodiscard]] constexpr std::int64_t operator[](int axis) const noexcept {
    return extents_[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] constexpr std::span<const std::int64_t> extents() const noexcept {
    return {extents_.data(), static_cast<std::size_t>(rank_)};
  }
  /// Product of the extents.
  [[nodiscard]] constexpr std::int64_t element_count() const noexcept {
    std::int64_t count = 1;
    for (int axis = 0; axis < rank_; ++axis) count *= (*this)[axis];
    return count;
  }
  friend bool operator==(const Shape& a, const Shape& b) noexcept = default;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

/// The shape as text: "[2, 3]"; "[]" for a scalar. Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const Shape& shape);

}  // namespace lockstep
