// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "training/norm.hpp"

namespace lockstep::detail {

void SquareSum::add(std::span<const float> elements) noexcept {
  const auto add_one = [this](float x) {
    sums_[next_] += double{x} * double{x};
    next_ = (next_ + 1) % lanes;
  };
  std::size_t i = 0;
  while (next_ != 0 && i < elements.size()) add_one(elements[i++]);
  for (; i + lanes <= elements.size(); i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const double x = double{elements[i + lane]};
      sums_[lane] += x * x;
    }
  }
  while (i < elements.size()) add_one(elements[i++]);
}

double SquareSum::total() const noexcept {
  double total = 0;
  for (const double sum : sums_) total += sum;
  return total;
}

}  // namespace lockstep::detail
