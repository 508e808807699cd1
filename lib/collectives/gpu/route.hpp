// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a communicator do what is asked of GPUs: settled once, by what each says of its replicas' devices.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace lockstep::detail {

/// What a rank says of one replica.
struct GpuClaim {
  std::array<std::uint8_t, 16> uuid = {};  ///< of the GPU that it is on
  std::int32_t device = 0;                 ///< that GPU's number on its rank
  std::int32_t nccl_version = 0;           ///< 22809 for 2.28.9; 0: there is none
  std::array<char, 168> why_no_nccl{};     ///< cut off
};
static_assert(std::is_trivially_copyable_v<GpuClaim> && sizeof(GpuClaim) == 192, "it travels as bytes");

enum class GpuRoute : std::uint8_t {
  one_device,  ///< all replicas are on one GPU: kernels there do everything
  nccl,        ///< among one rank of each GPU
  host,        ///< through host memory
};

struct GpuDecision {
  GpuRoute route = GpuRoute::host;
  std::string text;     ///< "NCCL 2.28.9 among 4 GPUs", "no NCCL on rank 1: ..."
  std::string sharing;  ///< "ranks 0 and 1 share GPU-..., which rank 0 leads"; none where no two ranks share one
};

/// `claims` by replica. Pure: the same on all ranks.
[[nodiscard]] GpuDecision decide_route(std::span<const GpuClaim> claims, const ReplicaLayout& layout);

}  // namespace lockstep::detail
