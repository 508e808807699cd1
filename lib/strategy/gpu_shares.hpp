// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The division of GPUs among the ranks of a node that see the same GPUs.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Identifies a GPU. The id is equal in all processes that see the GPU, unlike the number of the GPU.
using GpuId = std::array<std::uint8_t, 16>;

/// The GPUs that one rank sees, in the order of their numbers on this rank, and whether the rank takes a share.
struct VisibleGpus {
  bool takes_share = true;
  std::vector<GpuId> ids;
};

/// The GPUs of one rank: gpu:first to gpu:(first + count - 1).
struct GpuShare {
  int first = 0;
  int count = 0;
  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};

/// One share for each rank. If there are no shares, `of_rank` is empty, and `why_not` states the reason.
struct GpuShares {
  std::vector<GpuShare> of_rank;
  std::string why_not;
};

/// Policy if there are more ranks than GPUs: no rank gets a GPU, or neighbouring ranks share a GPU.
enum class WhenCrowded : std::uint8_t { none_has_any, neighbours_share_one };

/// Divides GPUs among the ranks that see the same GPUs: in the order of ranks, as equally as possible, and at least one
/// GPU for each rank. There are no shares if a rank sees no GPU, if the GPUs of two ranks overlap but are not equal, or
/// if `crowded` forbids shares. No communication.
[[nodiscard]] GpuShares shares_of_gpus(std::span<const VisibleGpus> ranks, WhenCrowded crowded);

/// shares_of_gpus for the GPUs that the ranks of `communicator` see. The result is equal on all ranks. Collective.
[[nodiscard]] GpuShares agreed_shares_of_gpus(Communicator& communicator, bool takes_share, WhenCrowded crowded);

/// One device for each of `replicas` replicas. If there are more replicas than GPUs in `share`, neighbouring replicas
/// share a GPU.
[[nodiscard]] std::vector<Device> spread_over(const GpuShare& share, int replicas);

}  // namespace lockstep
