// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace lockstep::detail {

/// A sum of squares in f64, in one order whatever the processor and however the elements are cut into calls: element i
/// of all that were added goes to lane i mod 8, and the lanes are added from first to last.
class SquareSum {
 public:
  void add(std::span<const float> elements) noexcept;
  [[nodiscard]] double total() const noexcept;

 private:
  static constexpr std::size_t lanes = 8;
  std::array<double, lanes> sums_{};
  std::size_t next_ = 0;  // lane of the next element
};

}  // namespace lockstep::detail
