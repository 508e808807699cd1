// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The division of GPUs among ranks of a node that see the same ones.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// The same in every process that sees the GPU, independent of its number there.
using GpuId = std::array<std::uint8_t, 16>;

/// The GPUs that one rank sees, in the order of their numbers there, and whether the rank takes a share.
struct VisibleGpus {
  bool takes_share = true;
  std::vector<GpuId> ids;
};

/// gpu:first .. gpu:(first + count - 1) of a rank.
struct GpuShare {
  int first = 0;
  int count = 0;
  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};

/// One share for each rank; or the reason why there are none, then `of_rank` is empty.
struct GpuShares {
  std::vector<GpuShare> of_rank;
  std::string why_not;
};

/// Policy for more ranks than GPUs.
enum class WhenCrowded : std::uint8_t { none_has_any, neighbours_share_one };

/// Ranks that see the same GPUs get shares of them in the order of ranks, as equal as possible and at least one each.
/// There are no shares if a rank sees no GPU, if ranks see some of the same GPUs, but not all, and if `crowded` forbids
/// them. Arithmetic.
[[nodiscard]] GpuShares shares_of_gpus(std::span<const VisibleGpus> ranks, WhenCrowded crowded);

/// shares_of_gpus of the GPUs that the ranks of `communicator` see; equal on all ranks. Collective.
[[nodiscard]] GpuShares agreed_shares_of_gpus(Communicator& communicator, bool takes_share, WhenCrowded crowded);

/// A device for each of `replicas`; neighbours share a GPU if there are more of them than GPUs in `share`. Arithmetic.
[[nodiscard]] std::vector<Device> spread_over(const GpuShare& share, int replicas);

}  // namespace lockstep
