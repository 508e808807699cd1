// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The data of a small operation. It travels in the messages of the agreement, so that one exchange is enough.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "schedule/levels.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Maximum number of bytes of data that a rank sends in the messages of the agreement. If there is more data, a second
/// exchange is faster.
inline constexpr std::size_t most_carried_bytes = std::size_t{64} << 10;
/// Maximum number of bytes that the leader of a node reads from all ranks of the node. More bytes would take long,
/// since no other rank shares this work.
inline constexpr std::size_t most_joined_bytes = std::size_t{512} << 10;

/// A group of consecutive ranks has a *part* of the data: the partial results of its ranks, or the inputs of its ranks
/// one after the other. Each step of the agreement joins the parts of neighbouring groups to the part of a larger
/// group. The last step gives the result, in the same form on every rank.
///
/// Whether an operation has carried data is a function of the descriptor and the layout. So ranks that agree on the
/// descriptor also agree on this choice. Called under the engine's lock.
class CarriedData {
 public:
  CarriedData() = default;
  CarriedData(const CarriedData&) = delete;
  CarriedData& operator=(const CarriedData&) = delete;
  virtual ~CarriedData() = default;

  /// Bytes of this rank's own part.
  [[nodiscard]] virtual std::size_t own_bytes() const = 0;
  /// Bytes of the part of group `group` that step `step` joins.
  [[nodiscard]] virtual std::size_t part_bytes(std::size_t step, std::size_t group) const = 0;
  /// Bytes of the part that step `step` makes.
  [[nodiscard]] virtual std::size_t bytes_after(std::size_t step) const = 0;
  /// Writes this rank's own part to `part`: a copy of its inputs, or its partial results.
  virtual void pack(std::byte* part) = 0;
  /// Joins the parts of step `step`, which are in the order of their ranks, and writes the new part to `joined`.
  virtual void join(std::size_t step, std::span<const std::byte* const> parts, std::byte* joined) = 0;
  /// Called when all ranks agree: writes the outputs from `result`, the part of all ranks.
  virtual void deliver(const std::byte* result) = 0;
};

/// The steps of the agreement that join parts of CarriedData: between nodes, between ranks without shared memory, or in
/// the levels of a node.
class CarrySteps {
 public:
  /// `node_leaders`: for every rank, the lowest rank of its node. If a node is not a range of consecutive ranks, no
  /// data is carried.
  CarrySteps(const ReplicaLayout& layout, std::span<const int> node_leaders, int rank);

  /// The levels of a node with several levels; each level is a step. `levels` has the ranks of `layout`.
  CarrySteps(const ReplicaLayout& layout, const Levels& levels, int rank);

  [[nodiscard]] bool are_possible() const noexcept { return are_possible_; }
  /// Whether the steps are the levels of a node.
  [[nodiscard]] bool are_levels() const noexcept { return are_levels_; }
  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// By step, the groups of ranks whose parts this rank joins: group i has ranks [bounds[i], bounds[i+1]). Step 0 joins
  /// the ranks of the node; step k + 1 joins the groups of nodes of round k of the agreement. Empty if this rank is not
  /// a leader.
  [[nodiscard]] const std::vector<std::vector<int>>& bounds() const noexcept { return bounds_; }
  /// The number of messages that one rank sends in all steps; approximately the maximum over all ranks.
  [[nodiscard]] std::size_t messages() const noexcept { return messages_; }
  /// The number of ranks of the largest node.
  [[nodiscard]] std::size_t most_ranks() const noexcept { return most_ranks_; }
  /// The largest number of blocks of the canonical tree that a part consists of, on any rank.
  [[nodiscard]] std::size_t most_blocks() const noexcept { return most_blocks_; }

 private:
  void note_blocks(int first_rank, int last_rank);

  ReplicaLayout layout_;
  int rank_;
  bool are_possible_ = false;
  bool are_levels_ = false;
  std::vector<std::vector<int>> bounds_;
  std::size_t messages_ = 0;
  std::size_t most_ranks_ = 1;
  std::size_t most_blocks_ = 1;
};

}  // namespace lockstep::detail
