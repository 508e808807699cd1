// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of a communicator: the replicas on each GPU, the rank that leads each GPU, and the path of the data. All
// ranks compute this from the same device descriptors, and so all ranks get the same result.
//
// In a reduction, each GPU first reduces the inputs of its replicas, and then takes part for all of them. If several
// ranks have replicas on one GPU, the lowest of these ranks leads the GPU and is the proxy of the other ranks.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "schedule/canonical_tree.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep::detail {

/// Description of the GPU of one replica. The replica's rank sends it to the other ranks.
struct DeviceDescriptor {
  std::array<std::uint8_t, 16> uuid = {};  ///< UUID of the GPU
  std::int32_t device = 0;                 ///< CUDA's number of the GPU on the replica's rank
  std::int32_t nccl_version = 0;           ///< such as 22809 for 2.28.9; 0 if NCCL is unavailable
  std::array<char, 168> why_no_nccl{};     ///< reason if NCCL is unavailable; long texts are truncated
};
static_assert(std::is_trivially_copyable_v<DeviceDescriptor> && sizeof(DeviceDescriptor) == 192, "it travels as bytes");

enum class GpuPath : std::uint8_t {
  one_device,  ///< all replicas are on one GPU, whose kernels run the whole operation
  nccl,        ///< NCCL moves data between the GPUs
  host,        ///< data travels through host memory
};

struct GpuDecision {
  GpuPath path = GpuPath::host;
  std::string text;     ///< "NCCL 2.28.9 among 4 GPUs", "no NCCL on rank 1: ..."
  std::string sharing;  ///< "ranks 0 and 1 share GPU-..., led by rank 0"; empty for GpuPath::host, or without sharing
};

/// Chooses the path. `descriptors` has one entry per replica, in id order. Has no side effects.
[[nodiscard]] GpuDecision decide_path(std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout);

/// One GPU and the rank that leads it.
struct Leader {
  int rank = 0;               ///< the lowest rank with replicas on the GPU
  int device = 0;             ///< CUDA's number of the GPU on the leading rank
  std::vector<int> replicas;  ///< replicas on the GPU, in id order
  std::vector<Block> blocks;  ///< the smallest set of canonical tree blocks that covers the replicas, in id order
};

/// The replicas of one rank, the proxied rank, on a GPU that another rank leads. The other rank is the proxy.
struct ProxiedRank {
  int rank = 0;
  int device = 0;             ///< CUDA's number of the GPU on the proxied rank
  int leader = 0;             ///< index of the GPU in Leaders
  std::vector<int> replicas;  ///< in id order
};

/// A block of the canonical tree whose replicas are all on one GPU.
struct LeaderBlock {
  int leader = 0;  ///< index of this GPU in Leaders
  Block block;
};

/// All GPUs of a communicator, ordered by the leading rank. GPUs with the same leader are ordered by first replica.
class Leaders {
 public:
  /// `descriptors` has one entry per replica, in id order.
  Leaders(std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(leaders_.size()); }
  [[nodiscard]] const Leader& operator[](int leader) const { return leaders_[static_cast<std::size_t>(leader)]; }
  /// Index of the first GPU whose leading rank is `rank` or higher; `size()` if there is no such GPU. `rank` may be
  /// equal to the number of ranks.
  [[nodiscard]] int first(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
  /// Index of the GPU of `replica`.
  [[nodiscard]] int of(int replica) const { return of_[static_cast<std::size_t>(replica)]; }
  /// Index of the GPU of the first replica of `rank`. If `rank` is a root, its input is sent from this GPU.
  [[nodiscard]] int of_rank(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  /// Whether `rank` has replicas on the GPU with the index `leader`.
  [[nodiscard]] bool has(int leader, int rank) const;
  /// The proxied ranks in rank order; several entries of one rank are ordered by their first replica.
  [[nodiscard]] const std::vector<ProxiedRank>& proxied_ranks() const noexcept { return proxied_; }
  /// Maximum number of replicas on one GPU.
  [[nodiscard]] int most_replicas() const noexcept { return most_replicas_; }
  /// The blocks of all GPUs in id order. Each replica is in exactly one of the blocks.
  [[nodiscard]] const std::vector<LeaderBlock>& blocks() const noexcept { return blocks_; }

 private:
  void add_proxied(int rank, int device, int leader, int replica);

  std::vector<Leader> leaders_;
  std::vector<ProxiedRank> proxied_;
  std::vector<int> first_;
  std::vector<int> of_;
  std::vector<int> of_rank_;
  std::vector<LeaderBlock> blocks_;
  int most_replicas_ = 0;
};

/// The smallest set of blocks of the tree over `all` replicas that covers `replicas`, which is in id order.
[[nodiscard]] std::vector<Block> blocks_of_replicas(std::span<const int> replicas, int all);

}  // namespace lockstep::detail
