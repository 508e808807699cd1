// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The data of a small operation, which travels in the messages of the agreement: one exchange instead of two.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// The most bytes of data that a rank sends in the messages of the agreement: more than that takes longer on the way
/// than a second exchange.
inline constexpr std::size_t most_carried_bytes = std::size_t{64} << 10;
/// The most bytes that the leader of a node reads of all ranks of the node, alone.
inline constexpr std::size_t most_joined_bytes = std::size_t{512} << 10;

/// Consecutive ranks together have a *part* of the data: their partial results, or their inputs one after the other.
/// In each step of the agreement the parts of neighbouring groups of ranks are joined to the part of all of them. The
/// last step gives the result, in the same form on every rank.
///
/// Which operations have carried data is a function of the descriptor and the layout, so ranks that agree agree on
/// that, too. Called under the engine's lock.
class CarriedData {
 public:
  CarriedData() = default;
  CarriedData(const CarriedData&) = delete;
  CarriedData& operator=(const CarriedData&) = delete;
  virtual ~CarriedData() = default;

  /// Bytes of this rank's own part.
  [[nodiscard]] virtual std::size_t own_bytes() const = 0;
  /// Bytes of the part of group `group` of step `step`.
  [[nodiscard]] virtual std::size_t part_bytes(std::size_t step, std::size_t group) const = 0;
  /// Bytes of what step `step` makes.
  [[nodiscard]] virtual std::size_t bytes_after(std::size_t step) const = 0;
  /// Writes this rank's own part: a copy of the inputs, or what it adds of them.
  virtual void pack(std::byte* part) = 0;
  /// Joins the parts of step `step`, in the order of their ranks.
  virtual void join(std::size_t step, std::span<const std::byte* const> parts, std::byte* joined) = 0;
  /// All ranks agree: writes the outputs.
  virtual void deliver(const std::byte* result) = 0;
};

/// The steps of the agreement between ranks of several nodes, or of ranks that share no memory, as they join parts.
class CarrySteps {
 public:
  /// `node_leaders`: for every rank, the lowest rank of its node. If nodes are not ranges of consecutive ranks, no data
  /// is carried.
  CarrySteps(ReplicaLayout layout, std::span<const int> node_leaders, int rank);

  [[nodiscard]] bool are_possible() const noexcept { return are_possible_; }
  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// By step, the groups of ranks whose parts this rank joins: group i has ranks [bounds[i], bounds[i+1]). Step 0 joins
  /// the ranks of the node, step k + 1 the nodes of round k of the agreement. Empty on a rank that leads no node.
  [[nodiscard]] const std::vector<std::vector<int>>& bounds() const noexcept { return bounds_; }
  /// The number of messages of one rank in all steps.
  [[nodiscard]] std::size_t messages() const noexcept { return messages_; }
  /// The number of ranks of the largest node.
  [[nodiscard]] std::size_t most_ranks() const noexcept { return most_ranks_; }
  /// The most blocks of the canonical tree that one part consists of, on any rank.
  [[nodiscard]] std::size_t most_blocks() const noexcept { return most_blocks_; }

 private:
  ReplicaLayout layout_;
  int rank_;
  bool are_possible_ = false;
  std::vector<std::vector<int>> bounds_;
  std::size_t messages_ = 0;
  std::size_t most_ranks_ = 1;
  std::size_t most_blocks_ = 1;
};

}  // namespace lockstep::detail
