// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/route.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <map>

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

}  // namespace

GpuDecision decide_route(std::span<const GpuClaim> claims, const ReplicaLayout& layout) {
  const auto of_rank = [&](int rank) -> const GpuClaim& {
    return claims[static_cast<std::size_t>(layout.first(rank))];
  };
  std::map<std::array<std::uint8_t, 16>, int> rank_by_gpu;
  for (int replica = 0; replica < layout.replicas(); ++replica) {
    const int rank = layout.rank_of(replica);
    const auto& uuid = claims[static_cast<std::size_t>(replica)].uuid;
    const int other = rank_by_gpu.try_emplace(uuid, rank).first->second;
    if (other == rank) continue;
    return {GpuRoute::host, fmt::format("ranks {} and {} share {}, and NCCL takes a GPU from one rank only", other,
                                        rank, uuid_text(uuid))};
  }
  if (rank_by_gpu.size() == 1) return {GpuRoute::one_device, "all replicas are on one GPU"};
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    if (of_rank(rank).nccl_version != 0) continue;
    return {GpuRoute::host, fmt::format("no NCCL on rank {}: {}", rank, of_rank(rank).why_no_nccl.data())};
  }
  const int version = of_rank(0).nccl_version;
  for (int rank = 1; rank < layout.ranks(); ++rank) {
    const int other = of_rank(rank).nccl_version;
    if (other == version) continue;
    return {GpuRoute::host, fmt::format("rank 0 has NCCL {}, but rank {} has {}; NCCL works with one version only",
                                        version_text(version), rank, version_text(other))};
  }
  return {GpuRoute::nccl, fmt::format("NCCL {} among {} GPUs", version_text(version), rank_by_gpu.size())};
}

}  // namespace lockstep::detail
