// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The steps that every operation takes inside a node, through memory that all ranks see: show the others where the
// inputs lie, read those of others, wait until the others have read.
//
// Up to `flat_bytes` everybody puts a copy of its inputs on its control block: one crossing. Above, they are read in
// place: two crossings. Memory that the others cannot see is staged in rounds: two crossings each.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/host/buffer_table.hpp"
#include "collectives/host/node_plan.hpp"
#include "collectives/host/node_work.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Sizes that decide how data goes, never what arrives. Equal on all ranks.
struct NodeTuning {
  std::size_t flat_bytes = 2048;                     ///< at most this much per rank goes over the control blocks
  std::size_t round_bytes = std::size_t{512} << 10;  ///< per replica, of memory that is staged
};

/// What goes over the control blocks. The same on all ranks.
struct ControlBlockUse {
  bool fits = false;         ///< what one rank brings has room on its control block
  bool always_flat = false;  ///< and is so little that it goes there wherever its buffers lie
};
[[nodiscard]] ControlBlockUse control_block_use(std::span<const NodeRound> rounds, int most_inputs,
                                                const NodeTuning& tuning);

/// Who brings what, and who looks at whose memory. The same on all ranks but for the last two.
struct NodeRoles {
  std::vector<int> inputs;  ///< by rank: how many it brings of each item
  std::vector<int> givers;  ///< the other ranks whose memory this one touches
  std::vector<int> takers;  ///< the other ranks that touch this one's
};

class NodeOperation : public Operation {
 public:
  bool is_reusable() const noexcept final { return true; }
  void arrive(std::uint64_t tag, Arrival& arrival) final;
  void start(Transport& transport, Workspace& workspace) final;
  bool advance(Transport& transport, Workspace& workspace) final;
  std::vector<int> awaited_ranks() const final;
  bool abandon(Transport& transport) noexcept final;

 protected:
  /// `rounds` is how the inputs are staged where they must be. `shown` is what the others may be told of `items`.
  NodeOperation(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                std::vector<HostItem> items, std::span<const HostItem> shown, std::vector<NodeRound> rounds,
                NodeRoles roles, const NodeTuning& tuning);

  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] NodeGroup& group() const noexcept { return group_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const std::vector<HostItem>& items() const noexcept { return items_; }
  [[nodiscard]] const NodeRoles& roles() const noexcept { return roles_; }
  [[nodiscard]] const std::vector<NodeRound>& rounds() const noexcept { return rounds_; }
  [[nodiscard]] int inputs_of(int rank) const { return roles_.inputs[static_cast<std::size_t>(rank)]; }
  /// The present round, counted from the first.
  [[nodiscard]] std::size_t round_index() const noexcept { return round_; }
  [[nodiscard]] const NodeRound& round() const noexcept { return rounds_[round_]; }
  [[nodiscard]] const OwnTable& own_table() const noexcept { return own_; }
  [[nodiscard]] const PeerTable& table_of(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  /// Whether some memory of `rank`, another one, is staged.
  [[nodiscard]] bool is_staged(int rank) const;

  /// Where input `i` of `rank` has `piece`; null when it lies in staging memory.
  [[nodiscard]] const std::byte* visible_input(int rank, const TensorRange& piece, std::size_t i) const;
  /// The same in this round, wherever it lies.
  [[nodiscard]] const std::byte* input_of_round(int rank, const StagedPiece& part, std::size_t i) const;
  /// The same where all inputs lie on the control blocks.
  [[nodiscard]] const std::byte* inline_input(int rank, const StagedPiece& part, std::size_t i) const;

 private:
  enum class Mode : std::uint8_t {
    flat,    ///< all inputs lie on the control blocks
    direct,  ///< one round, in place
    staged,  ///< rounds, since some buffers cannot be seen
  };
  enum class Phase : std::uint8_t { gather, spread };
  /// What is copied for the others: or not what they see themselves, or what is this rank's own to read.
  enum class Stage : std::uint8_t { everything, what_others_need };

  /// Does all of this rank's work; all inputs are on the control blocks.
  virtual void do_flat() = 0;
  /// Does all of this rank's work where the buffers lie; `has_changed` when some lie elsewhere than in the last life,
  /// and in the first.
  virtual void do_direct(bool has_changed) = 0;
  /// Does this rank's work of one round.
  virtual void do_round() = 0;
  /// Everybody has done the work of the round.
  virtual void finish_round() {}
  /// The rank whose slices of a round are nobody's to read but this one's own; -1 if there is none.
  [[nodiscard]] virtual int private_owner() const noexcept { return -1; }

  [[nodiscard]] std::byte* own_payload() const {
    return group_.own_control_block().payloads[work_.slot()].bytes.data();
  }
  [[nodiscard]] std::size_t staging_stride(int rank) const;
  [[nodiscard]] const std::byte* staging_of(int rank) const;
  void copy_in(const NodeRound& round, std::byte* staging, Stage what);
  [[nodiscard]] bool look_up_givers();

  [[nodiscard]] bool all_clocks_reached(const std::vector<int>& ranks, std::size_t steps);

  const ReplicaLayout layout_;
  NodeGroup& group_;
  NodeWork work_;
  const int rank_;
  const std::vector<HostItem> items_;
  const std::vector<NodeRound> rounds_;
  const NodeRoles roles_;
  std::size_t most_round_bytes_ = 64;  ///< of one input of each item in one round
  const ControlBlockUse control_block_use_;
  OwnTable own_;
  std::vector<PeerTable> peers_;
  bool has_looked_up_ = false;

  // this life
  Mode mode_ = Mode::flat;
  Phase phase_ = Phase::gather;
  std::size_t round_ = 0;
  std::size_t next_ = 0;  ///< of those that this rank waits for: all before have come
};

}  // namespace lockstep::detail
