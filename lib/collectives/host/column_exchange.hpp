// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of an all_to_all between nodes that all have the same number of ranks. Member i of each node is in column i;
// the ranks of one column exchange blocks in the rounds of schedule/digit_rounds. A block is what the ranks of one node
// have for one rank, in the order of the sending ranks. Called under the engine's lock.

#pragma once

#include "collectives/engine/transfers.hpp"
#include "schedule/digit_rounds.hpp"
#include "transport/buffer.hpp"
#include "transport/transport.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::detail {

class ColumnExchange {
 public:
  /// `rank_bytes` is the number of bytes from one rank to another, the same for all pairs of ranks.
  ColumnExchange(int nodes, int members, int rank, std::size_t rank_bytes);

  [[nodiscard]] int nodes() const noexcept { return nodes_; }
  [[nodiscard]] int members() const noexcept { return members_; }
  /// Whether each rank sends one message to each other rank of its column.
  [[nodiscard]] bool is_direct() const noexcept { return rounds_.size() <= 1; }
  [[nodiscard]] int column() const noexcept { return rank_ % members_; }
  [[nodiscard]] std::size_t rank_bytes() const noexcept { return rank_bytes_; }
  /// The rank in `column` of the node that is `distance` further than this one, modulo the number of nodes.
  [[nodiscard]] int rank_at(int distance, int column) const;

  /// Allocates memory for the blocks.
  void start(Workspace& workspace, Transfers& transfers);
  /// Where the caller writes what `member` of this node has for the rank of this column in the node that is `distance`
  /// further.
  [[nodiscard]] std::byte* part_to(int distance, int member) const;
  /// Begins the rounds: all parts to other nodes are written.
  void post(Transport& transport, Workspace& workspace, Transfers& transfers) {
    post_round(transport, workspace, transfers);
  }
  /// Makes progress after `post`. Returns whether all blocks have come.
  [[nodiscard]] bool advance(Transport& transport, Workspace& workspace, Transfers& transfers);
  /// When all blocks have come: what the rank in column `member` of the node that is `distance` back sent.
  [[nodiscard]] const std::byte* part_from(int distance, int member) const;

 private:
  [[nodiscard]] std::size_t block_bytes() const { return static_cast<std::size_t>(members_) * rank_bytes_; }
  void post_round(Transport& transport, Workspace& workspace, Transfers& transfers);
  void take_round();

  int nodes_;
  int members_;
  int rank_;
  std::size_t rank_bytes_;
  std::vector<DigitRound> rounds_;
  std::size_t round_ = 0;
  std::byte* memory_ = nullptr;
  std::vector<const std::byte*> blocks_;    ///< where each block is now
  std::vector<const std::byte*> received_;  ///< by message of the round
};

}  // namespace lockstep::detail
