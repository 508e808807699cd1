// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The layout of a job, as boundaries: ranks own contiguous ranges of replicas, nodes contiguous ranges of ranks.

#pragma once

#include <vector>

namespace lockstep::detail {

struct RankLayout {
  std::vector<int> first_replica;  ///< first replica of each rank, and R at the end
  std::vector<int> first_rank;     ///< first rank of each node, and P at the end

  [[nodiscard]] int ranks() const noexcept { return static_cast<int>(first_replica.size()) - 1; }
  [[nodiscard]] int replicas() const noexcept { return first_replica.back(); }
  [[nodiscard]] int nodes() const noexcept { return static_cast<int>(first_rank.size()) - 1; }
  friend bool operator==(const RankLayout&, const RankLayout&) = default;
};

/// One replica per rank, and nodes whose numbers of ranks differ by at most one. Requires 1 <= nodes <= ranks.
[[nodiscard]] inline RankLayout even_rank_layout(int ranks, int nodes) {
  RankLayout layout;
  for (int rank = 0; rank <= ranks; ++rank) layout.first_replica.push_back(rank);
  for (int node = 0; node <= nodes; ++node)
    layout.first_rank.push_back(static_cast<int>(static_cast<long long>(ranks) * node / nodes));
  return layout;
}

}  // namespace lockstep::detail
