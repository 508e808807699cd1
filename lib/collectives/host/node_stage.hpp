// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The stage inside the node of an all_reduce between nodes: every rank reads the other ranks' inputs in place and
// writes its results to their outputs. Buffers that the other ranks cannot map are staged whole: inputs before the
// agreement, results until all ranks have finished.

#pragma once

#include "collectives/call/host_item.hpp"
#include "collectives/host/buffer_table.hpp"
#include "collectives/host/node_work.hpp"
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

/// Inputs of a rank, and results, are staged up to NodeGroup::most_staged_bytes. If it has more, or staging memory
/// cannot be allocated, the ranks of its node exchange messages instead. Not thread-safe: the engine calls under its
/// lock.
class NodeStage {
 public:
  /// `replicas[m]` is the number of inputs per item of member m of the group, `result_bytes` the most that `results` is
  /// asked for. `items` must outlive this.
  NodeStage(NodeGroup& group, std::span<const HostItem> items, ReduceOp op, std::vector<int> replicas,
            std::size_t result_bytes);

  /// This rank arrives at the operation: publishes the addresses of its buffers.
  void arrive(std::uint64_t tag, Arrival& arrival);
  /// Called when all ranks have arrived. Whether the node shares memory in this operation: the same on all its ranks.
  [[nodiscard]] bool start();

  /// This rank is about to touch the others' memory. If false, one of them has abandoned the operation, and this rank
  /// must not touch it. `input`, `outputs` and `results_of` are valid between this and `end_work`; the caller does not
  /// wait there.
  [[nodiscard]] bool begin_work();
  /// See NodeWork::goes_on.
  [[nodiscard]] bool goes_on(std::size_t bytes) { return work_.goes_on(bytes); }
  /// If false, one of the others has abandoned the operation meanwhile: what this rank has read may be wrong.
  [[nodiscard]] bool end_work() { return work_.end(); }

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
  [[nodiscard]] std::uint64_t steps_of_all() const noexcept { return group_.steps_of_all(); }
  /// The members that have not.
  [[nodiscard]] std::vector<int> unfinished() const;

  /// Called when all ranks have finished. Throws Error(unavailable) if an output of this rank has left shared memory
  /// since its arrival, so that the results of other ranks are not in it.
  void require_outputs() const { own_.require_outputs(group_); }

  /// Part of Operation::abandon, called after the engine has marked the operation as abandoned. See NodeWork::abandon.
  /// `has_transfers`: messages may still arrive in the results.
  void abandon(bool has_transfers) noexcept;

 private:
  void look_up();
  [[nodiscard]] std::size_t staged_bytes(int member) const;
  [[nodiscard]] std::size_t staged_offset(int member, std::size_t item, std::size_t replica) const;
  [[nodiscard]] bool has_room_to_stage(std::size_t bytes);
  void stage_inputs(std::byte* staging) const;

  NodeGroup& group_;
  const std::vector<int> others_;
  NodeWork work_;
  std::span<const HostItem> items_;
  ReduceOp op_;
  std::vector<int> replicas_;
  std::size_t result_bytes_;
  std::vector<std::size_t> item_offsets_;  ///< offset of each item in staging memory, per replica; one more than items
  OwnTable own_;
  std::vector<PeerTable> peers_;                  ///< by member
  std::vector<const std::byte*> staging_;         ///< by member; null if the member stages nothing
  std::vector<std::vector<std::byte*>> outputs_;  ///< by item
  bool others_staged_ = false;
  bool has_looked_up_ = false;
  bool has_finished_ = false;
};

}  // namespace lockstep::detail
