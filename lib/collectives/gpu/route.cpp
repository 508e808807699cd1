// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/route.hpp"

#include <fmt/ranges.h>

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

/// As nvidia-smi prints it.
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

/// The first few GPUs that several ranks have replicas on.
std::string sharing_text(const RanksByGpu& ranks_by_gpu) {
  constexpr int most = 8;
  std::string text;
  int count = 0;
  for (const auto& [uuid, ranks] : ranks_by_gpu) {
    if (ranks.size() == 1 || ++count > most) continue;
    text += fmt::format("{}ranks {} and {} share {}, which rank {} leads", text.empty() ? "" : "; ",
                        fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back(), uuid_text(uuid), ranks.front());
  }
  if (count > most) text += fmt::format("; {} more GPUs are shared", count - most);
  return text;
}

/// Why the ranks `among` cannot speak NCCL with one another; nothing where they can.
std::string why_no_nccl(const std::set<int>& among, std::span<const GpuClaim> claims, const ReplicaLayout& layout) {
  const auto of_rank = [&](int rank) -> const GpuClaim& {
    return claims[static_cast<std::size_t>(layout.first(rank))];
  };
  for (const int rank : among) {
    if (of_rank(rank).nccl_version != 0) continue;
    return fmt::format("no NCCL on rank {}: {}", rank, of_rank(rank).why_no_nccl.data());
  }
  for (const int rank : among) {
    const int version = of_rank(0).nccl_version;  // rank 0 leads its GPUs
    const int other = of_rank(rank).nccl_version;
    if (other == version) continue;
    return fmt::format("rank 0 has NCCL {}, but rank {} has {}; NCCL works with one version only",
                       version_text(version), rank, version_text(other));
  }
  return {};
}

}  // namespace

// NCCL takes a GPU from one rank only. What the other ranks have there goes to that rank through host memory, not
// through CUDA's own way between processes: cudaIpcGetMemHandle exports no memory that is taken in order with a stream,
// as all of lockstep's is.
GpuDecision decide_route(std::span<const GpuClaim> claims, const ReplicaLayout& layout) {
  RanksByGpu ranks_by_gpu;  // in order
  for (int replica = 0; replica < layout.replicas(); ++replica) {
    std::vector<int>& ranks = ranks_by_gpu[claims[static_cast<std::size_t>(replica)].uuid];
    const int rank = layout.rank_of(replica);
    if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
  }
  const std::string sharing = sharing_text(ranks_by_gpu);
  const std::string addition = sharing.empty() ? "" : "; " + sharing;
  if (ranks_by_gpu.size() == 1) return {GpuRoute::one_device, "all replicas are on one GPU" + addition, sharing};
  std::set<int> leaders;
  for (const auto& [uuid, ranks] : ranks_by_gpu) leaders.insert(ranks.front());
  if (std::string why = why_no_nccl(leaders, claims, layout); !why.empty()) return {GpuRoute::host, std::move(why), {}};
  const int version = claims.front().nccl_version;
  return {GpuRoute::nccl, fmt::format("NCCL {} among {} GPUs{}", version_text(version), ranks_by_gpu.size(), addition),
          sharing};
}

}  // namespace lockstep::detail
