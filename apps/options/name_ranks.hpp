// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

namespace options {

/// "rank 1", "ranks 0, 2-5"; empty if there are none. `ranks` are sorted. Local.
[[nodiscard]] inline std::string name_ranks(const std::vector<int>& ranks) {
  if (ranks.empty()) return {};
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", first == 0 ? "" : ", ", ranks[first]);
    if (last > first) text += fmt::format("{}{}", last > first + 1 ? "-" : ", ", ranks[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace options
