// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of a communicator: which replicas are on which, which rank leads each, and by which path data travels. All
// of it follows from the ranks' device descriptors, and is therefore the same on all ranks.
//
// The replicas of one GPU are reduced there first; the GPU then takes part for all of them. If several ranks have
// replicas on one GPU, the lowest of them leads it and is the proxy of the others.

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

/// The GPU of one replica, as its rank describes it to the others.
struct DeviceDescriptor {
  std::array<std::uint8_t, 16> uuid = {};  ///< UUID of the GPU
  std::int32_t device = 0;                 ///< CUDA's number of the GPU on that rank
  std::int32_t nccl_version = 0;           ///< 22809 for 2.28.9; 0: NCCL is unavailable
  std::array<char, 168> why_no_nccl{};     ///< truncated
};
static_assert(std::is_trivially_copyable_v<DeviceDescriptor> && sizeof(DeviceDescriptor) == 192, "it travels as bytes");

enum class GpuPath : std::uint8_t {
  one_device,  ///< all replicas are on one GPU; its kernels run the whole operation
  nccl,        ///< NCCL among the leaders of the GPUs
  host,        ///< through host memory
};

struct GpuDecision {
  GpuPath path = GpuPath::host;
  std::string text;     ///< "NCCL 2.28.9 among 4 GPUs", "no NCCL on rank 1: ..."
  std::string sharing;  ///< "ranks 0 and 1 share GPU-..., led by rank 0"; empty if no two ranks share a GPU
};

/// Chooses the path. `descriptors` has one entry per replica, by id. Has no side effects.
[[nodiscard]] GpuDecision decide_path(std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout);

/// One GPU and the rank that leads it.
struct Leader {
  int rank = 0;               ///< the lowest rank with replicas on the GPU
  int device = 0;             ///< CUDA's number of the GPU on that rank
  std::vector<int> replicas;  ///< replicas on the GPU, in id order
  std::vector<Block> blocks;  ///< the fewest blocks of the canonical tree that cover them, in id order
};

/// The replicas of one rank on a GPU that another rank leads. The leading rank is the proxy.
struct ProxiedRank {
  int rank = 0;
  int device = 0;  ///< CUDA's number of the GPU on this rank
  int leader = 0;
  std::vector<int> replicas;  ///< in id order
};

/// A block of the canonical tree that one leader can compute alone.
struct LeaderBlock {
  int leader = 0;
  Block block;
};

/// All GPUs of a communicator, ordered by the rank that leads; the GPUs of one rank by their first replicas.
class Leaders {
 public:
  /// `descriptors` has one entry per replica, by id.
  Leaders(std::span<const DeviceDescriptor> descriptors, const ReplicaLayout& layout);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(leaders_.size()); }
  [[nodiscard]] const Leader& operator[](int leader) const { return leaders_[static_cast<std::size_t>(leader)]; }
  /// Index of the first GPU that `rank` leads; if there is none, of the first GPU that a later rank leads, or `size()`.
  /// `first(ranks)` equals `size()`.
  [[nodiscard]] int first(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
  /// Index of the GPU of `replica`.
  [[nodiscard]] int of(int replica) const { return of_[static_cast<std::size_t>(replica)]; }
  /// Index of the GPU of the first replica of `rank`, from which a root's input is read.
  [[nodiscard]] int of_rank(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  /// Whether `rank` has replicas on that GPU.
  [[nodiscard]] bool has(int leader, int rank) const;
  /// The proxied ranks in rank order; several entries of one rank are ordered by their first replica.
  [[nodiscard]] const std::vector<ProxiedRank>& proxied_ranks() const noexcept { return proxied_; }
  /// Maximum number of replicas on one GPU.
  [[nodiscard]] int most_replicas() const noexcept { return most_replicas_; }
  /// All leaders' blocks in id order: they tile the replicas.
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

/// The fewest blocks of the tree over `all` replicas that cover `replicas`, which are in order.
[[nodiscard]] std::vector<Block> blocks_of_replicas(std::span<const int> replicas, int all);

}  // namespace lockstep::detail
