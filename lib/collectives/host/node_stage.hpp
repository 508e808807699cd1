// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The inside of a node in an all_reduce between nodes: every rank reads the others' inputs where they lie and writes
// its results to their outputs. Buffers that the others cannot see are staged whole: inputs before the agreement,
// results until everybody has finished.

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

/// Inputs of a rank are staged up to NodeGroup::most_staged_bytes, and if there is room; else the ranks of that node
/// exchange messages. Not thread-safe: the engine calls under its lock.
class NodeStage {
 public:
  /// `replicas[m]` is how many member m of the group has, of every one of `items`, which must outlive this.
  NodeStage(NodeGroup& group, std::span<const HostItem> items, ReduceOp op, std::vector<int> replicas);

  /// This rank comes to the operation: says where its buffers lie.
  void arrive(std::uint64_t tag, Arrival& arrival);
  /// All have come. Whether the node shares memory in this operation: the same on all its ranks.
  [[nodiscard]] bool start();

  /// This rank is about to touch the others' memory; false, and it must not, when one of them has given up. Between
  /// this and `end_work`, where nothing waits, it may ask for `input`, `outputs` and `results_of`.
  [[nodiscard]] bool begin_work();
  void end_work() { work_.end(); }

  [[nodiscard]] int member() const noexcept { return group_.rank(); }
  /// Where an input of `member` begins.
  [[nodiscard]] const std::byte* input(int member, std::size_t item, std::size_t replica) const;
  /// The others' outputs that this rank can write.
  [[nodiscard]] std::span<std::byte* const> outputs(std::size_t item) const { return outputs_[item]; }
  /// Whether the others see output `index` of `item` of this rank.
  [[nodiscard]] bool is_seen(std::size_t item, std::size_t index) const {
    return own_.output(item, index) != NodeAddress::none;
  }
  [[nodiscard]] bool all_seen() const noexcept { return own_.is_visible(); }
  /// Memory for all results, where another rank takes some of them from there; else null.
  [[nodiscard]] std::byte* results(std::size_t bytes);
  /// The same of `member`, who has finished.
  [[nodiscard]] const std::byte* results_of(int member, std::size_t bytes) const;

  /// This rank has read all that it reads and written all that it writes. Once.
  void finish();
  /// Whether all others have.
  [[nodiscard]] bool has_everybody_finished() const;
  /// Members that have not.
  [[nodiscard]] std::vector<int> unfinished() const;

  /// As Operation's, after the engine has marked the operation as abandoned. Nobody begins to work on it any more; who
  /// is in the middle of it gets a moment to end. `has_transfers`: messages may still arrive in the results.
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
  std::vector<std::size_t> item_offsets_;  ///< of one replica's inputs in staging memory; one more than items
  std::vector<int> others_;
  OwnTable own_;
  std::vector<PeerTable> peers_;                  ///< by member
  std::vector<const std::byte*> staging_;         ///< by member; null where it stages nothing
  std::vector<std::vector<std::byte*>> outputs_;  ///< by item
  bool others_staged_ = false;
  bool has_looked_up_ = false;
  bool has_finished_ = false;
};

}  // namespace lockstep::detail
