// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which replicas are on which GPU. A GPU's replicas are reduced there first; it then speaks for all of them. Where
// several ranks have replicas on one, the lowest of them leads it, and the others are guests there.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/gpu/route.hpp"
#include "schedule/canonical_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One GPU.
struct Leader {
  int rank = 0;               ///< the lowest that has replicas on it
  int device = 0;             ///< its number there
  std::vector<int> replicas;  ///< that are on it, in id order
  std::vector<Block> blocks;  ///< the fewest nodes of the canonical tree that cover them, in id order
};

/// One rank's replicas on a GPU that another rank leads.
struct Guest {
  int rank = 0;
  int device = 0;  ///< the GPU's number there
  int leader = 0;
  std::vector<int> replicas;  ///< in id order
};

/// A node of the canonical tree that one leader can compute alone.
struct LeaderBlock {
  int leader = 0;
  Block block;
};

/// All GPUs of a communicator; ranks that lead in order, the GPUs of one by their first replicas. The same on all
/// ranks.
class Leaders {
 public:
  /// `claims` by replica.
  Leaders(std::span<const GpuClaim> claims, const ReplicaLayout& layout);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(leaders_.size()); }
  [[nodiscard]] const Leader& operator[](int leader) const { return leaders_[static_cast<std::size_t>(leader)]; }
  /// The first leader of `rank`, if it is no mere guest; `first(ranks)` is `size()`.
  [[nodiscard]] int first(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
  /// The leader of `replica`.
  [[nodiscard]] int of(int replica) const { return of_[static_cast<std::size_t>(replica)]; }
  /// The leader of the first replica of `rank`: what the rank gives as the root comes from there.
  [[nodiscard]] int of_rank(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  /// Whether `rank` has replicas on that GPU.
  [[nodiscard]] bool has(int leader, int rank) const;
  /// Ranks in order, those of one by their first replicas.
  [[nodiscard]] const std::vector<Guest>& guests() const noexcept { return guests_; }
  /// Replicas on the GPU that has most of them.
  [[nodiscard]] int most_replicas() const noexcept { return most_replicas_; }
  /// All leaders' blocks in id order: they tile the replicas.
  [[nodiscard]] const std::vector<LeaderBlock>& blocks() const noexcept { return blocks_; }

 private:
  void add_guest(int rank, int device, int leader, int replica);

  std::vector<Leader> leaders_;
  std::vector<Guest> guests_;
  std::vector<int> first_;
  std::vector<int> of_;
  std::vector<int> of_rank_;
  std::vector<LeaderBlock> blocks_;
  int most_replicas_ = 0;
};

/// The fewest nodes of the tree over `all` replicas that cover `replicas`, which are in order.
[[nodiscard]] std::vector<Block> blocks_of_replicas(std::span<const int> replicas, int all);

}  // namespace lockstep::detail
