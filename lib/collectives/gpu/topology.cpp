// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/topology.hpp"

#include <fmt/ranges.h>
#include "base/phrases.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep::detail {
namespace {

/// The UUID in the form that nvidia-smi prints.
std::string uuid_text(const std::array<std::uint8_t, 16>& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100);
}

using RanksByGpu = std::map<std::array<std::uint8_t, 16>, std::vector<int>>;

/// Names the first few GPUs that several ranks share.
std::string sharing_text(const RanksByGpu& ranks_by_gpu) {
  constexpr int most = 8;
  std::string text;
  int count = 0;
  for (const auto& [uuid, ranks] : ranks_by_gpu) {
    if (ranks.size() == 1 || ++count > most) continue;
    text += fmt::format("{}ranks {} and {} share {}, led by rank {}", text.empty() ? "" : "; ",
                        fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back(), uuid_text(uuid), ranks.front());
  }
  if (count > most) text += fmt::format("; {} shared", counted(count - most, "more GPU is", "more GPUs are"));
  return text;
}

/// The reason why NCCL cannot connect the ranks `among`; empty if NCCL can connect them.
std::string why_no_nccl(const std::set<int>& among, std::span<const DeviceDescriptor> descriptors,
                        const ReplicaLayout& layout) {
  const auto of_rank = [&](int rank) -> const DeviceDescriptor& {
    return descriptors[static_cast<std::size_t>(layout.first(rank))];
  };
  for (const int rank : among) {
    if (of_rank(rank).nccl_version != 0) continue;
    return fmt::format("no NCCL on rank {}: {}", rank, of_rank(rank).why_no_nccl.data());
  }
  for (const int rank : among) {
    const int version = of_rank(0).nccl_version;  // rank 0 is in `among`: it leads its GPUs
    const int other = of_rank(rank).nccl_version;
    if (other == version) continue;
    return fmt::format("rank 0 has NCCL {}, but rank {} has {}; NCCL works with one version only",
                       version_text(version), rank, version_text(other));
  }
  return {};
}

}  // namespace

// NCCL accepts a GPU from one rank only. If other ranks have replicas on that GPU, their tensors travel to the leading
// rank through host memory. CUDA IPC is not an alternative: cudaIpcGetMemHandle cannot export stream-ordered
// allocations, and lockstep allocates all device memory in stream order.
GpuDecision decide_path(std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout) {
  RanksByGpu ranks_by_gpu;  // the ranks of each GPU are in ascending order
  for (int replica = 0; replica < layout.replicas(); ++replica) {
    std::vector<int>& ranks = ranks_by_gpu[descriptors[static_cast<std::size_t>(replica)].uuid];
    const int rank = layout.rank_of(replica);
    if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
  }
  const std::string sharing = sharing_text(ranks_by_gpu);
  const std::string addition = sharing.empty() ? "" : "; " + sharing;
  if (ranks_by_gpu.size() == 1) return {GpuPath::one_device, "all replicas are on one GPU" + addition, sharing};
  std::set<int> leaders;
  for (const auto& [uuid, ranks] : ranks_by_gpu) leaders.insert(ranks.front());
  if (std::string why = why_no_nccl(leaders, descriptors, layout); !why.empty())
    return {GpuPath::host, std::move(why), {}};
  const int version = descriptors.front().nccl_version;
  return {GpuPath::nccl,
          fmt::format("NCCL {} among {}{}", version_text(version), counted(ranks_by_gpu.size(), "GPU"), addition),
          sharing};
}

Leaders::Leaders(std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout) {
  std::map<std::array<std::uint8_t, 16>, int> by_gpu;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    first_.push_back(size());
    for (int replica = layout.first(rank); replica < layout.first(rank + 1); ++replica) {
      const DeviceDescriptor& descriptor = descriptors[static_cast<std::size_t>(replica)];
      const auto [found, is_new] = by_gpu.try_emplace(descriptor.uuid, size());
      if (is_new) leaders_.push_back({rank, descriptor.device, {}, {}});
      Leader& leader = leaders_[static_cast<std::size_t>(found->second)];
      leader.replicas.push_back(replica);
      of_.push_back(found->second);
      if (leader.rank != rank) add_proxied(rank, descriptor.device, found->second, replica);
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

void Leaders::add_proxied(int rank, int device, int leader, int replica) {
  auto client = std::find_if(proxied_.begin(), proxied_.end(),
                             [&](const ProxiedRank& known) { return known.rank == rank && known.leader == leader; });
  if (client == proxied_.end()) client = proxied_.insert(proxied_.end(), {rank, device, leader, {}});
  client->replicas.push_back(replica);
}

bool Leaders::has(int leader, int rank) const {
  return (*this)[leader].rank == rank || std::any_of(proxied_.begin(), proxied_.end(), [&](const ProxiedRank& client) {
           return client.rank == rank && client.leader == leader;
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
