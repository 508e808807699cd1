// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The protocol by which a rank reads and writes memory of other ranks of its node.
//
// 1. The rank announces its work (`working`), then checks whether a producer has abandoned the operation (`abandoned`).
// 2. It works in turns of about `turn_bytes`, and checks again between two turns.
// 3. It withdraws the announcement, then checks once more: if a producer has abandoned the operation meanwhile, the
//    producer's caller may have changed what this rank has read. The operation then does not complete here: the failure
//    of the producer, whose control message is under way, ends it.
//
// A rank that abandons an operation sets `abandoned`, and waits until no consumer works on the operation. That takes
// one turn, unless the consumer's process is stopped. After a second the rank takes its outputs out of shared memory,
// so that no rank reads what the consumer writes when it continues.

#pragma once

#include "collectives/host/buffer_table.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One rank's state in the protocol, of one operation at a time. Members are ranks of the group. Not thread-safe,
/// except for `is_abandoned`.
class NodeWork {
 public:
  /// Bytes read and written between two checks: some milliseconds, even on a busy processor.
  static constexpr std::size_t turn_bytes = std::size_t{4} << 20;

  /// This rank touches memory of `producers`; `consumers` touch memory of this rank. Both outlive this.
  NodeWork(NodeGroup& group, std::span<const int> producers, std::span<const int> consumers)
      : group_(group), producers_(producers), consumers_(consumers) {}

  /// This rank arrives at the operation `tag`.
  void arrive(std::uint64_t tag, Arrival& arrival);
  [[nodiscard]] std::size_t slot() const noexcept { return slot_; }
  [[nodiscard]] const Arrival& arrival_of(int member) const { return group_.control_block(member).arrivals[slot_]; }

  /// This rank is about to touch memory of the producers. If false, one of them has abandoned the operation, and this
  /// rank must not touch their memory. The caller does not wait between this and `end`.
  [[nodiscard]] bool begin();
  /// Between `begin` and `end`: `bytes` more are about to be read and written. If false, a producer has abandoned the
  /// operation, and the rest of the work must not be done. True outside of `begin` and `end`.
  [[nodiscard]] bool goes_on(std::size_t bytes);
  /// Whether a producer has abandoned the operation.
  [[nodiscard]] bool is_abandoned() const;
  /// If false, a producer has abandoned the operation since `begin`: what this rank has read may be wrong, and it must
  /// not complete the operation.
  [[nodiscard]] bool end();

  /// One step of this rank is done; publishes its earlier writes.
  void tick();
  /// Whether `member` has done `steps` steps since its arrival.
  [[nodiscard]] bool has_ticked(int member, std::size_t steps) const;

  /// Part of Operation::abandon, called after the engine has marked the operation as abandoned: no rank begins to work
  /// on it any more. Consumers that are working on it get one second to finish. If one does not, staging memory and
  /// `table` are leaked, since it may still read them, and the outputs in `table` are taken out of shared memory, since
  /// it may still write to them. If the ranks are threads, none can be stopped alone: waits until they have finished,
  /// as for a mutex.
  void abandon(OwnTable& table) noexcept;

 private:
  /// The consumers that still work on the operation after a wait of one second.
  [[nodiscard]] std::vector<int> await_consumers() const;

  NodeGroup& group_;
  const std::span<const int> producers_;
  const std::span<const int> consumers_;
  std::uint64_t tag_ = 0;
  std::size_t slot_ = 0;
  bool is_working_ = false;
  std::size_t bytes_of_turn_ = 0;
};

}  // namespace lockstep::detail
