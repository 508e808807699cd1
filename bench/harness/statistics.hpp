// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics of repeated measurements.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace perf {

/// The middle one of `values`, the upper of the two if their number is even. `values` is not empty. Local.
[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The value below which the given fraction of `values` is, interpolated between neighbours; 0 if there are none.
/// Local.
[[nodiscard]] inline double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - static_cast<double>(below));
}

}  // namespace perf
