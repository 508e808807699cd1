// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/split.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep::detail {

std::vector<int> split_members(std::span<const SplitClaim> claims_by_rank, int rank) {
  const auto claim = [&](int of_rank) { return claims_by_rank[static_cast<std::size_t>(of_rank)]; };
  std::vector<int> members;
  if (claim(rank).color < 0) return members;
  for (int other = 0; other < static_cast<int>(claims_by_rank.size()); ++other) {
    if (claim(other).color == claim(rank).color) members.push_back(other);
  }
  std::sort(members.begin(), members.end(),
            [&](int a, int b) { return std::pair(claim(a).key, a) < std::pair(claim(b).key, b); });
  return members;
}

}  // namespace lockstep::detail
