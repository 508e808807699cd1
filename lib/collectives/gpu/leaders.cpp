// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/leaders.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace lockstep::detail {

Leaders::Leaders(std::span<const GpuClaim> claims, const ReplicaLayout& layout) {
  std::map<std::array<std::uint8_t, 16>, int> by_gpu;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    first_.push_back(size());
    for (int replica = layout.first(rank); replica < layout.first(rank + 1); ++replica) {
      const GpuClaim& claim = claims[static_cast<std::size_t>(replica)];
      const auto [found, is_new] = by_gpu.try_emplace(claim.uuid, size());
      if (is_new) leaders_.push_back({rank, claim.device, {}, {}});
      Leader& leader = leaders_[static_cast<std::size_t>(found->second)];
      leader.replicas.push_back(replica);
      of_.push_back(found->second);
      if (leader.rank != rank) add_guest(rank, claim.device, found->second, replica);
    }
    of_rank_.push_back(of(layout.first(rank)));
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

void Leaders::add_guest(int rank, int device, int leader, int replica) {
  auto guest = std::find_if(guests_.begin(), guests_.end(),
                            [&](const Guest& known) { return known.rank == rank && known.leader == leader; });
  if (guest == guests_.end()) guest = guests_.insert(guests_.end(), {rank, device, leader, {}});
  guest->replicas.push_back(replica);
}

bool Leaders::has(int leader, int rank) const {
  return (*this)[leader].rank == rank || std::any_of(guests_.begin(), guests_.end(), [&](const Guest& guest) {
           return guest.rank == rank && guest.leader == leader;
         });
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
