// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/leaders.hpp"

#include <algorithm>

namespace lockstep::detail {

Leaders::Leaders(std::span<const GpuClaim> claims, const ReplicaLayout& layout) {
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    first_.push_back(size());
    for (int replica = layout.first(rank); replica < layout.first(rank + 1); ++replica) {
      const int device = claims[static_cast<std::size_t>(replica)].device;
      const auto mine = leaders_.begin() + first_.back();
      auto leader =
          std::find_if(mine, leaders_.end(), [device](const Leader& known) { return known.device == device; });
      if (leader == leaders_.end()) leader = leaders_.insert(leaders_.end(), {rank, device, {}, {}});
      leader->replicas.push_back(replica);
      of_.push_back(static_cast<int>(leader - leaders_.begin()));
    }
  }
  first_.push_back(size());
  for (int index = 0; index < size(); ++index) {
    Leader& leader = leaders_[static_cast<std::size_t>(index)];
    leader.blocks = blocks_of_replicas(leader.replicas, layout.replicas());
    for (const Block& block : leader.blocks) blocks_.push_back({index, block});
    most_replicas_ = std::max(most_replicas_, static_cast<int>(leader.replicas.size()));
  }
  std::sort(blocks_.begin(), blocks_.end(),
            [](const LeaderBlock& a, const LeaderBlock& b) { return a.block.first < b.block.first; });
}

std::vector<Block> blocks_of_replicas(std::span<const int> replicas, int all) {
  std::vector<Block> blocks;
  for (std::size_t begin = 0; begin < replicas.size();) {
    std::size_t end = begin + 1;
    while (end < replicas.size() && replicas[end] == replicas[end - 1] + 1) ++end;
    const std::vector<Block> run = aligned_blocks(replicas[begin], replicas[end - 1] + 1, all);
    blocks.insert(blocks.end(), run.begin(), run.end());
    begin = end;
  }
  return blocks;
}

}  // namespace lockstep::detail
