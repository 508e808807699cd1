// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How a rank touches memory of others: it says so before, sees whether they have given the operation up, and ticks when
// it is done.

#pragma once

#include "collectives/host/buffer_table.hpp"
#include "transport/shm/node_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::detail {

/// Arrival::flags of a rank some of whose buffers the others cannot see.
inline constexpr std::uint32_t flag_staged = 1;
/// The same, and there is too much to stage.
inline constexpr std::uint32_t flag_refused = 2;

/// One rank's part of one operation at a time. Members are ranks of the group. Not thread-safe.
class NodeWork {
 public:
  explicit NodeWork(NodeGroup& group) : group_(group) {}

  /// This rank comes to the operation `tag`.
  void arrive(std::uint64_t tag, Arrival& arrival);
  [[nodiscard]] std::size_t slot() const noexcept { return slot_; }
  [[nodiscard]] const Arrival& arrival_of(int member) const { return group_.control_block(member).arrivals[slot_]; }

  /// This rank is about to touch memory of `givers`; false, and it must not, when one of them has given the operation
  /// up. Nothing waits between this and `end`.
  [[nodiscard]] bool begin(std::span<const int> givers);
  void end();

  /// One step of this rank is done; the others see what it has written before.
  void tick();
  /// Whether `member` has done `steps` steps since it came.
  [[nodiscard]] bool has_ticked(int member, std::size_t steps) const;

  /// As Operation's, after the engine has marked the operation as given up: nobody begins to work on it any more, and
  /// who of `takers` is in the middle of it gets a moment to end. True when one does not: staging memory and `table`
  /// are then left to him.
  [[nodiscard]] bool abandon(std::span<const int> takers, OwnTable& table) noexcept;

 private:
  NodeGroup& group_;
  std::uint64_t tag_ = 0;
  std::size_t slot_ = 0;
};

}  // namespace lockstep::detail
