// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a measurement reports of its rounds.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace perf {

/// The middle one of `values`, the upper of two; there is at least one.
[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace perf
