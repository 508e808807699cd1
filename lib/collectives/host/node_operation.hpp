// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The steps of every operation inside a node, through shared memory: each rank publishes the addresses of its inputs,
// reads the inputs of other ranks, and waits until the other ranks have read its own inputs.
//
// If the inputs of each rank have at most `flat_bytes` bytes, every rank copies its inputs to its payload (NodeGroup).
// This takes the time of one cache-line transfer between ranks: inputs of up to 32 bytes are in the line of the arrival
// flag. Larger inputs are read in place, which takes two transfers. Memory that the other ranks cannot map is staged in
// rounds, with two transfers per round. node_plan.hpp defines the rounds, their slices, and the owners of the slices.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/host/buffer_table.hpp"
#include "collectives/host/node_plan.hpp"
#include "collectives/host/node_stage.hpp"
#include "collectives/host/operations.hpp"
#include "transport/shm/node_group.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Whether inputs are copied to the payloads. Equal on all ranks.
struct ControlBlockUse {
  bool fits = false;           ///< the inputs of each rank fit into its payload
  bool always_flat = false;    ///< the inputs are so small that they are copied even if they can be read in place
  bool is_beside_tag = false;  ///< each rank has one input, which fits into the cache line of its arrival flag
};
[[nodiscard]] ControlBlockUse control_block_use(std::span<const NodeRound> rounds, int most_inputs,
                                                const NodeTuning& tuning);

[[nodiscard]] std::size_t bytes_of_one_input(std::span<const HostItem> items);

/// The number of inputs of each rank, and the ranks that access memory of other ranks.
struct NodeRoles {
  std::vector<int> inputs;     ///< number of inputs per item, by rank; the same on all ranks
  std::vector<int> producers;  ///< the other ranks whose memory this rank accesses
  std::vector<int> consumers;  ///< the other ranks that access the memory of this rank
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
  bool uses_transfers() const noexcept final { return false; }

 protected:
  using Cut = std::function<std::vector<NodeRound>()>;

  /// `cut` makes the rounds. It is called when the rounds are first needed: if the inputs fit into the payloads, or
  /// if memory must be staged. `published` are the buffers of `items` that other ranks may access.
  NodeOperation(const Descriptor& descriptor, const ReplicaLayout& layout, NodeGroup& group,
                std::vector<HostItem> items, std::span<const HostItem> published, Cut cut, NodeRoles roles,
                const NodeTuning& tuning);

  [[nodiscard]] const ReplicaLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] NodeGroup& group() const noexcept { return group_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const std::vector<HostItem>& items() const noexcept { return items_; }
  [[nodiscard]] const NodeRoles& roles() const noexcept { return roles_; }
  /// To be called before `bytes` bytes are read and written. If the result is false, a producer has abandoned the
  /// operation, and the rest of the work must not be done.
  [[nodiscard]] bool goes_on(std::size_t bytes) { return work_.goes_on(bytes); }
  /// Whether a producer has abandoned the operation. May be called on any thread.
  [[nodiscard]] bool is_abandoned() const { return work_.is_abandoned(); }
  /// Empty until the rounds are needed; see the constructor.
  [[nodiscard]] const std::vector<NodeRound>& rounds() const noexcept { return rounds_; }
  /// The largest number of bytes of the results of one owner in one round.
  [[nodiscard]] std::size_t most_result_bytes() const noexcept { return most_result_bytes_; }
  [[nodiscard]] int inputs_of(int rank) const { return roles_.inputs[static_cast<std::size_t>(rank)]; }
  /// Index of the current round.
  [[nodiscard]] std::size_t round_index() const noexcept { return round_; }
  [[nodiscard]] const NodeRound& round() const noexcept { return rounds_[round_]; }
  [[nodiscard]] const OwnTable& own_table() const noexcept { return own_; }
  [[nodiscard]] const PeerTable& table_of(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  /// Whether some buffers of `rank` must be staged. `rank` must be another rank.
  [[nodiscard]] bool is_staged(int rank) const;

  /// The address of `range` in input `i` of `rank`; null if this rank cannot map the input.
  [[nodiscard]] const std::byte* visible_input(int rank, const TensorRange& range, std::size_t i) const;
  /// The address of the elements `staged` of input `i` of `rank` in this round: in the input itself, or in staging
  /// memory.
  [[nodiscard]] const std::byte* input_of_round(int rank, const StagedRange& staged, std::size_t i) const;
  /// The address of the elements `staged` of input `i` of `rank`. All inputs must be in the payloads.
  [[nodiscard]] const std::byte* payload_input(int rank, const StagedRange& staged, std::size_t i) const;

 private:
  enum class Mode : std::uint8_t {
    flat,    ///< all inputs are in the payloads
    direct,  ///< one round, with all buffers in place
    staged,  ///< in rounds, because other ranks cannot map some buffers
  };
  enum class Phase : std::uint8_t { gather, spread };
  /// The inputs to stage: all inputs, or only the inputs that other ranks must read and cannot map.
  enum class Staging : std::uint8_t { everything, what_others_need };

  /// Does all work of this rank in Mode::flat.
  virtual void do_flat() = 0;
  /// Does all work of this rank in Mode::direct; stops when `goes_on` returns false. `has_changed`: this is the first
  /// run, or some buffers have different addresses than in the previous run.
  virtual void do_direct(bool has_changed) = 0;
  /// Does the work of this rank in the current round; stops when `goes_on` returns false.
  virtual void do_round() = 0;
  /// Called in Mode::staged when this rank and its consumers have done the work of the round.
  virtual void finish_round() {}
  /// The owner whose slices of this rank's inputs need no staging, because no other rank reads them; -1 if there is no
  /// such owner.
  [[nodiscard]] virtual int private_owner() const noexcept { return -1; }

  void need_rounds();
  void take_inputs_beside_tags();
  void stage_to_payload(Arrival& arrival);
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
  const std::size_t input_bytes_;  ///< bytes of one input of each item
  const Cut cut_;
  std::vector<NodeRound> rounds_;
  std::size_t most_round_bytes_ = 64;   ///< largest number of bytes of one input of each item in a round
  std::size_t most_result_bytes_ = 64;  ///< largest number of bytes of the results of one owner in a round
  ControlBlockUse control_block_use_;
  OwnTable own_;
  std::vector<PeerTable> peers_;
  bool has_looked_up_ = false;
  struct alignas(64) InputBesideTag : std::array<std::byte, decltype(Arrival::data)::capacity> {};
  std::vector<InputBesideTag> beside_tags_;  // by rank: copies of the inputs; empty if they are not beside the tags

  // state of the current run
  Mode mode_ = Mode::flat;
  Phase phase_ = Phase::gather;
  std::size_t round_ = 0;
  std::size_t next_ = 0;  ///< index in the list of awaited ranks; all ranks before it have reached the awaited step
};

}  // namespace lockstep::detail
