// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The protocol by which a rank reads and writes the memory of other ranks of its node. The producers of rank r are the
// ranks whose memory r accesses; the consumers of r are the ranks that access the memory of r.
//
// 1. The rank announces its work in `working`, then checks in `abandoned` whether a producer has abandoned the
//    operation.
// 2. The rank works in turns of about `turn_bytes` bytes, and repeats the check between two turns.
// 3. The rank withdraws the announcement, then repeats the check. If a producer has abandoned the operation since step
//    1, the caller on the producer may have changed a buffer before this rank read the buffer. Then the operation does
//    not complete on this rank; the operation fails when the producer's control message about the failure arrives.
//
// A rank that abandons an operation sets `abandoned`, and waits until no consumer works on the operation. The wait
// normally takes one turn at most. If the process of a consumer is stopped, the wait ends after one second, and the
// rank takes its outputs out of shared memory. If the consumer continues later and writes to these outputs, no rank
// reads the written data.

#pragma once

#include "collectives/host/buffer_table.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// State of one rank in the protocol, for one operation at a time. A member is a rank of `group`. Not thread-safe,
/// except for `is_abandoned`.
class NodeWork {
 public:
  /// Bytes that a rank reads and writes between two checks. The access takes some milliseconds, even on a busy
  /// processor.
  static constexpr std::size_t turn_bytes = std::size_t{4} << 20;

  /// This rank accesses memory of `producers`; `consumers` access memory of this rank. Both lists must outlive this
  /// object.
  NodeWork(NodeGroup& group, std::span<const int> producers, std::span<const int> consumers)
      : group_(group), producers_(producers), consumers_(consumers) {}

  /// This rank arrives at the operation with tag `tag`.
  void arrive(std::uint64_t tag, Arrival& arrival);
  [[nodiscard]] std::size_t slot() const noexcept { return slot_; }
  [[nodiscard]] const Arrival& arrival_of(int member) const { return group_.control_block(member).arrivals[slot_]; }

  /// To be called before this rank accesses memory of the producers. If the result is false, a producer has abandoned
  /// the operation, and this rank must not access memory of any producer. The caller must not wait between `begin` and
  /// `end`.
  [[nodiscard]] bool begin();
  /// To be called between `begin` and `end`, before `bytes` bytes are read and written. If the result is false, a
  /// producer has abandoned the operation, and the caller must not do the rest of the work. Outside of `begin` and
  /// `end` the result is true.
  [[nodiscard]] bool goes_on(std::size_t bytes);
  /// Whether a producer has abandoned the operation.
  [[nodiscard]] bool is_abandoned() const;
  /// To be called when this rank has finished its accesses to memory of the producers. If the result is false, a
  /// producer has abandoned the operation, the data that this rank has read may be wrong, and this rank must not
  /// complete the operation.
  [[nodiscard]] bool end();

  /// Counts one step of this rank as done, and publishes all earlier writes of this rank.
  void tick();
  /// Whether `member` has done at least `steps` steps since it arrived at the operation.
  [[nodiscard]] bool has_ticked(int member, std::size_t steps) const;

  /// Part of Operation::abandon. Called after the engine has marked the operation as abandoned, so that no rank begins
  /// new work on it. Consumers that still work on the operation get one second to finish. If a consumer does not finish
  /// in time, it may still read staging memory and `table`, so both are leaked. It may also still write to the outputs
  /// in `table`, so the outputs are taken out of shared memory. If the ranks are threads of one process, only the whole
  /// process can be stopped, so the function waits for the consumers without a time limit, as for a mutex.
  void abandon(OwnTable& table) noexcept;

 private:
  /// Waits for the consumers. Returns the consumers that still work on the operation after one second.
  [[nodiscard]] std::vector<int> await_consumers() const;
  /// As `end`, also for work that was not done.
  [[nodiscard]] bool stop_working();

  NodeGroup& group_;
  const std::span<const int> producers_;
  const std::span<const int> consumers_;
  std::uint64_t tag_ = 0;
  std::size_t slot_ = 0;
  bool is_working_ = false;
  std::size_t bytes_of_turn_ = 0;
};

}  // namespace lockstep::detail
