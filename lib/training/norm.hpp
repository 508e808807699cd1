// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace lockstep::detail {

/// A sum of squares in f64. The order of additions depends neither on the processor nor on the division of the elements
/// into calls of `add`: the square of element i, counted over all calls, is added to partial sum i mod 8, and `total`
/// adds the partial sums in order.
class SquareSum {
 public:
  void add(std::span<const float> elements) noexcept;
  [[nodiscard]] double total() const noexcept;

 private:
  static constexpr std::size_t lanes = 8;
  std::array<double, lanes> sums_{};
  std::size_t next_ = 0;  // index of the partial sum for the next element
};

}  // namespace lockstep::detail
