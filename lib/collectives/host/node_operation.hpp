// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The steps of every operation inside a node, through shared memory: publish the addresses of the inputs, read the
// inputs of other ranks, wait until the other ranks have read.
//
// Up to `flat_bytes` every rank copies its inputs to its control block: one transfer of a cache line between ranks.
// Above that, inputs are read in place: two transfers. Memory that the other ranks cannot map is staged in rounds: two
// transfers each.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/host/buffer_table.hpp"
#include "collectives/host/node_plan.hpp"
#include "collectives/host/node_stage.hpp"
#include "collectives/host/operations.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Whether inputs go over the control blocks. The same on all ranks.
struct ControlBlockUse {
  bool fits = false;         ///< the inputs of one rank fit on its control block
  bool always_flat = false;  ///< they fit and are so small that they go there even if others can read them in place
};
[[nodiscard]] ControlBlockUse control_block_use(std::span<const NodeRound> rounds, int most_inputs,
                                                const NodeTuning& tuning);

[[nodiscard]] std::size_t bytes_of_one_input(std::span<const HostItem> items);

/// The number of inputs of each rank, and the ranks whose memory is read.
struct NodeRoles {
  std::vector<int> inputs;     ///< number of inputs per item, by rank; the same on all ranks
  std::vector<int> producers;  ///< the other ranks whose memory this rank touches
  std::vector<int> consumers;  ///< the other ranks that touch the memory of this rank
};

class NodeOperation : public Operation {
 public:
  bool is_reusable() const noexcept final { return true; }
  void arrive(std::uint64_t tag, Arrival& arrival) final;
  void start(Transport& transport, Workspace& workspace) final;
  bool advance(Transport& transport, Workspace& workspace) final;
  DataProgress progress(const Transport& transport) const noexcept final;
  std::vector<int> awaited_ranks() const final;
  bool abandon(Transport& transport) noexcept final;
  bool survives_faults() const noexcept final { return true; }

 protected:
  using Cut = std::function<std::vector<NodeRound>()>;

  /// `cut` returns the rounds, which are used for memory that must be staged and for what fits on the control blocks;
  /// it is called when they are first needed. `published` are the buffers of `items` that others may touch.
  NodeOperation(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                std::vector<HostItem> items, std::span<const HostItem> published, Cut cut, NodeRoles roles,
                const NodeTuning& tuning);

  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] NodeGroup& group() const noexcept { return group_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const std::vector<HostItem>& items() const noexcept { return items_; }
  [[nodiscard]] const NodeRoles& roles() const noexcept { return roles_; }
  /// Before reading and writing `bytes` bytes of producers' memory: if false, the rest of the work must not be done.
  [[nodiscard]] bool goes_on(std::size_t bytes) { return work_.goes_on(bytes); }
  /// The same at once, on any thread.
  [[nodiscard]] bool is_abandoned() const { return work_.is_abandoned(); }
  /// Empty as long as all memory is used in place.
  [[nodiscard]] const std::vector<NodeRound>& rounds() const noexcept { return rounds_; }
  /// The most bytes of the results of one owner in one round.
  [[nodiscard]] std::size_t most_result_bytes() const noexcept { return most_result_bytes_; }
  [[nodiscard]] int inputs_of(int rank) const { return roles_.inputs[static_cast<std::size_t>(rank)]; }
  /// Index of the present round.
  [[nodiscard]] std::size_t round_index() const noexcept { return round_; }
  [[nodiscard]] const NodeRound& round() const noexcept { return rounds_[round_]; }
  [[nodiscard]] const OwnTable& own_table() const noexcept { return own_; }
  [[nodiscard]] const PeerTable& table_of(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  /// Whether some inputs of `rank`, another rank, are staged.
  [[nodiscard]] bool is_staged(int rank) const;

  /// The address of `range` in input `i` of `rank`; null if it is in staging memory.
  [[nodiscard]] const std::byte* visible_input(int rank, const TensorRange& range, std::size_t i) const;
  /// The address of `staged` in input `i` of `rank` in this round, in place or in staging memory.
  [[nodiscard]] const std::byte* input_of_round(int rank, const StagedRange& staged, std::size_t i) const;
  /// The address of `staged` in input `i` of `rank`; all inputs must be on the control blocks.
  [[nodiscard]] const std::byte* payload_input(int rank, const StagedRange& staged, std::size_t i) const;

 private:
  enum class Mode : std::uint8_t {
    flat,    ///< all inputs are on the control blocks
    direct,  ///< one round, in place
    staged,  ///< in rounds, since some buffers cannot be mapped
  };
  enum class Phase : std::uint8_t { gather, spread };
  /// The inputs to stage: all, or only those that other ranks read and cannot map.
  enum class Staging : std::uint8_t { everything, what_others_need };

  /// Does all of this rank's work; all inputs are on the control blocks.
  virtual void do_flat() = 0;
  /// Does all of this rank's work in place, as long as it `goes_on`. `has_changed`: some buffers have other addresses
  /// than in the last run, or this is the first run.
  virtual void do_direct(bool has_changed) = 0;
  /// Does this rank's work of one round, as long as it `goes_on`.
  virtual void do_round() = 0;
  /// Called when all ranks have done the work of the round.
  virtual void finish_round() {}
  /// The owner whose slices need no staging, because only this rank reads them from its own inputs; -1 if there is
  /// none.
  [[nodiscard]] virtual int private_owner() const noexcept { return -1; }

  void need_rounds();
  [[nodiscard]] std::byte* own_payload() const {
    return group_.own_control_block().payloads[work_.slot()].bytes.data();
  }
  [[nodiscard]] std::size_t staging_stride(int rank) const;
  [[nodiscard]] const std::byte* staging_of(int rank) const;
  void stage_inputs(const NodeRound& round, std::byte* staging, Staging what);
  [[nodiscard]] bool look_up_producers();

  [[nodiscard]] bool all_clocks_reached(const std::vector<int>& ranks, std::size_t steps);

  const ReplicaLayout layout_;
  NodeGroup& group_;
  const NodeRoles roles_;
  NodeWork work_;
  const int rank_;
  const std::vector<HostItem> items_;
  const std::size_t input_bytes_;  ///< of one input of each item
  const Cut cut_;
  std::vector<NodeRound> rounds_;
  std::size_t most_round_bytes_ = 64;   ///< bytes of one input of each item in one round
  std::size_t most_result_bytes_ = 64;  ///< bytes of the results of one owner in one round
  ControlBlockUse control_block_use_;
  OwnTable own_;
  std::vector<PeerTable> peers_;
  bool has_looked_up_ = false;

  // state of the current run
  Mode mode_ = Mode::flat;
  Phase phase_ = Phase::gather;
  std::size_t round_ = 0;
  std::size_t next_ = 0;  ///< index in the list of awaited ranks; all earlier ones have arrived
};

}  // namespace lockstep::detail
