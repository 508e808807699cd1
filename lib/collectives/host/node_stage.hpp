// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The stage inside one node of a collective over several nodes, in shared memory. Every rank reads the inputs of the
// other ranks in place, and writes its results to the outputs of the other ranks. If the other ranks cannot map an
// input, the whole input is copied to staging memory before the agreement. If the other ranks cannot map an output, its
// rank copies the results from staging memory after all ranks have finished.

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

/// Arrival::flags of a rank with buffers that the other ranks cannot map, and that are staged.
inline constexpr std::uint32_t flag_staged = 1;
/// Arrival::flags of a rank with buffers that the other ranks cannot map, and that cannot be staged.
inline constexpr std::uint32_t flag_refused = 2;

/// A rank stages at most NodeGroup::most_staged_bytes bytes of inputs, and at most that number of bytes of results. If
/// a rank would have to stage more, or staging memory cannot be allocated, the ranks of the node exchange messages
/// instead. Not thread-safe: the engine makes all calls under its lock.
class NodeStage {
 public:
  /// `replicas[m]` is the number of inputs per item of member m of the group. `result_bytes` is the largest number of
  /// bytes that `results` may be called with. `items` must outlive this object.
  NodeStage(NodeGroup& group, std::span<const HostItem> items, ReduceOp op, std::vector<int> replicas,
            std::size_t result_bytes);

  /// This rank arrives at the operation: stages inputs if necessary, and publishes the addresses of its buffers.
  void arrive(std::uint64_t tag, Arrival& arrival);
  /// Called when all ranks have arrived. Returns whether the ranks of the node share memory in this operation; all of
  /// these ranks get the same result.
  [[nodiscard]] bool start();

  /// To be called before this rank accesses memory of the other ranks. If the result is false, another rank has
  /// abandoned the operation, and this rank must not access that memory. `input`, `outputs` and `results_of` are valid
  /// between `begin_work` and `end_work`; the caller must not wait between these two calls.
  [[nodiscard]] bool begin_work();
  /// See NodeWork::goes_on.
  [[nodiscard]] bool goes_on(std::size_t bytes) { return work_.goes_on(bytes); }
  /// If the result is false, another rank has abandoned the operation since `begin_work`, and the data that this rank
  /// has read may be wrong.
  [[nodiscard]] bool end_work() { return work_.end(); }

  [[nodiscard]] int member() const noexcept { return group_.rank(); }
  /// The number of ranks of the node.
  [[nodiscard]] int members() const noexcept { return group_.size(); }
  /// The address of an input of `member`.
  [[nodiscard]] const std::byte* input(int member, std::size_t item, std::size_t replica) const;
  /// The outputs of the other ranks for `item` that this rank can write.
  [[nodiscard]] std::span<std::byte* const> outputs(std::size_t item) const { return outputs_[item]; }
  /// Whether the other ranks can write output `index` of `item` of this rank.
  [[nodiscard]] bool is_seen(std::size_t item, std::size_t index) const {
    return own_.output(item, index) != NodeAddress::none;
  }
  [[nodiscard]] bool all_seen() const noexcept { return own_.is_visible(); }
  /// Staging memory for all results, if another rank must copy results from it; else null.
  [[nodiscard]] std::byte* results(std::size_t bytes);
  /// The staging memory of the results of `member`, which must have finished.
  [[nodiscard]] const std::byte* results_of(int member, std::size_t bytes) const;

  /// To be called when this rank has done all its reads and writes. Calls after the first have no effect.
  void finish();
  /// Whether all other ranks of the node have finished.
  [[nodiscard]] bool have_all_finished() const;
  [[nodiscard]] std::uint64_t steps_of_all() const noexcept { return group_.steps_of_all(); }
  /// The members that have not finished.
  [[nodiscard]] std::vector<int> unfinished() const;

  /// Called when all ranks have finished. Throws Error(unavailable) if an output of this rank has left shared memory
  /// (NodeGroup::unshare) since this object was made: the output then lacks results that other ranks have written.
  void require_outputs() const { own_.require_outputs(group_); }

  /// Part of Operation::abandon, called after the engine has marked the operation as abandoned. See NodeWork::abandon.
  /// `has_transfers`: messages may still arrive in the memory of `results`.
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
  std::vector<std::size_t> item_offsets_;  ///< byte offset of each item for one replica; the last entry is the end
  OwnTable own_;
  std::vector<PeerTable> peers_;                  ///< by member
  std::vector<const std::byte*> staging_;         ///< by member; null if the member stages nothing
  std::vector<std::vector<std::byte*>> outputs_;  ///< by item
  bool others_staged_ = false;
  bool has_looked_up_ = false;
  bool has_finished_ = false;
};

}  // namespace lockstep::detail
