// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The stage inside the node of an all_reduce between nodes: every rank reads the other ranks' inputs in place and
// writes its results to their outputs. Buffers that the other ranks cannot map are staged whole: inputs before the
// agreement, results until all ranks have finished.

#pragma once

#include "collectives/call/host_item.hpp"
#include "collectives/host/buffer_table.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Arrival::flags of a rank with buffers that the other ranks cannot map.
inline constexpr std::uint32_t flag_staged = 1;
/// The same, if the buffers are too large to be staged.
inline constexpr std::uint32_t flag_refused = 2;

/// The protocol by which a rank touches memory of other ranks: it announces it, checks that they have not abandoned the
/// operation, and ticks its clock when it is done. Has this rank's state in one operation at a time. Members are ranks
/// of the group. Not thread-safe.
class NodeWork {
 public:
  explicit NodeWork(NodeGroup& group) : group_(group) {}

  /// This rank arrives at the operation `tag`.
  void arrive(std::uint64_t tag, Arrival& arrival);
  [[nodiscard]] std::size_t slot() const noexcept { return slot_; }
  [[nodiscard]] const Arrival& arrival_of(int member) const { return group_.control_block(member).arrivals[slot_]; }

  /// This rank is about to touch memory of `producers`. If false, one of them has abandoned the operation, and this
  /// rank must not touch it. The caller does not wait between this and `end`.
  [[nodiscard]] bool begin(std::span<const int> producers);
  void end();

  /// One step of this rank is done; publishes its earlier writes.
  void tick();
  /// Whether `member` has done `steps` steps since its arrival.
  [[nodiscard]] bool has_ticked(int member, std::size_t steps) const;

  /// As Operation's, after the engine has marked the operation as abandoned: no rank begins to work on it any more, and
  /// `consumers` that are working on it get one second to finish. True if one does not: staging memory and `table` are
  /// then leaked, since it may still read them.
  [[nodiscard]] bool abandon(std::span<const int> consumers, OwnTable& table) noexcept;

 private:
  NodeGroup& group_;
  std::uint64_t tag_ = 0;
  std::size_t slot_ = 0;
};

/// Inputs of a rank are staged up to NodeGroup::most_staged_bytes. If it has more, or staging memory cannot be
/// allocated, the ranks of its node exchange messages instead. Not thread-safe: the engine calls under its lock.
class NodeStage {
 public:
  /// `replicas[m]` is the number of replicas of member m of the group. `items` must outlive this.
  NodeStage(NodeGroup& group, std::span<const HostItem> items, ReduceOp op, std::vector<int> replicas);

  /// This rank arrives at the operation: publishes the addresses of its buffers.
  void arrive(std::uint64_t tag, Arrival& arrival);
  /// Called when all ranks have arrived. Whether the node shares memory in this operation: the same on all its ranks.
  [[nodiscard]] bool start();

  /// This rank is about to touch the others' memory. If false, one of them has abandoned the operation, and this rank
  /// must not touch it. `input`, `outputs` and `results_of` are valid between this and `end_work`; the caller does not
  /// wait there.
  [[nodiscard]] bool begin_work();
  void end_work() { work_.end(); }

  [[nodiscard]] int member() const noexcept { return group_.rank(); }
  /// The address of an input of `member`.
  [[nodiscard]] const std::byte* input(int member, std::size_t item, std::size_t replica) const;
  /// The others' outputs that this rank can write.
  [[nodiscard]] std::span<std::byte* const> outputs(std::size_t item) const { return outputs_[item]; }
  /// Whether the other ranks can write output `index` of `item` of this rank.
  [[nodiscard]] bool is_seen(std::size_t item, std::size_t index) const {
    return own_.output(item, index) != NodeAddress::none;
  }
  [[nodiscard]] bool all_seen() const noexcept { return own_.is_visible(); }
  /// Memory for all results, if another rank copies some of them from there; else null.
  [[nodiscard]] std::byte* results(std::size_t bytes);
  /// The same memory of `member`, which has finished.
  [[nodiscard]] const std::byte* results_of(int member, std::size_t bytes) const;

  /// This rank has done all its reads and writes. Calls after the first have no effect.
  void finish();
  /// Whether all other ranks have.
  [[nodiscard]] bool have_all_finished() const;
  /// The members that have not.
  [[nodiscard]] std::vector<int> unfinished() const;

  /// As Operation's, after the engine has marked the operation as abandoned. See NodeWork::abandon. `has_transfers`:
  /// messages may still arrive in the results.
  [[nodiscard]] bool abandon(bool has_transfers) noexcept;

 private:
  void look_up();
  [[nodiscard]] std::size_t staged_bytes(int member) const;
  [[nodiscard]] std::size_t staged_offset(int member, std::size_t item, std::size_t replica) const;
  [[nodiscard]] bool has_room_to_stage(std::size_t bytes);
  void stage_inputs(std::byte* staging) const;

  NodeGroup& group_;
  NodeWork work_;
  std::span<const HostItem> items_;
  ReduceOp op_;
  std::vector<int> replicas_;
  std::vector<std::size_t> item_offsets_;  ///< offset of each item in staging memory, per replica; one more than items
  std::vector<int> others_;
  OwnTable own_;
  std::vector<PeerTable> peers_;                  ///< by member
  std::vector<const std::byte*> staging_;         ///< by member; null if the member stages nothing
  std::vector<std::vector<std::byte*>> outputs_;  ///< by item
  bool others_staged_ = false;
  bool has_looked_up_ = false;
  bool has_finished_ = false;
};

}  // namespace lockstep::detail
