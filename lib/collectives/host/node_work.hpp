// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The protocol by which a rank touches memory of other ranks: it announces it, checks that they have not abandoned the
// operation, and ticks its clock when it is done.

#pragma once

#include "collectives/host/buffer_table.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail {

/// Arrival::flags of a rank with buffers that the other ranks cannot map.
inline constexpr std::uint32_t flag_staged = 1;
/// The same, if the buffers are too large to be staged.
inline constexpr std::uint32_t flag_refused = 2;

/// This rank's state in one operation at a time. Members are ranks of the group. Not thread-safe.
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

}  // namespace lockstep::detail
