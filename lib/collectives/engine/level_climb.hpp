// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The levels of an agreement above the first (schedule/levels), on a node with many ranks. In level 0, a rank compares
// its call with those of the ranks of its group. It then writes the result to its line of level 1, and reads the lines
// of one rank of each neighbouring group, and so on. After the last level all ranks know whether all calls are equal.
// Small data (CarriedData) travels in the same lines: after each level, a rank has the part of its group.
//
// Cost: one transfer of a cache line per level; a rank reads one line of each rank that it reads, and the lines of its
// data if they do not fit beside the tag.

#pragma once

#include "collectives/engine/carried_data.hpp"
#include "collectives/engine/operation.hpp"
#include "transport/shm/node_group.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One operation at a time. Not thread-safe: called under the engine's lock.
class LevelClimb {
 public:
  /// `carries`: the data of operations travels in the levels, if it is carried.
  LevelClimb(NodeGroup& group, bool carries);

  /// The other ranks of this rank's group in level 0.
  [[nodiscard]] std::span<const int> neighbours() const noexcept { return neighbours_; }
  /// Called before this rank shows that it has arrived at `head`. Writes the part of this rank to `arrival` or to its
  /// payload, if the data of `head` is carried.
  void open(std::uint64_t tag, Operation& head, Arrival& arrival);
  /// Called when all neighbours have arrived, until the result is true: all ranks have arrived. `differs` is set if
  /// some ranks do not make the same call. If not, the carried data has been delivered.
  [[nodiscard]] bool advance(bool& differs);
  /// The ranks that have written the fewest lines of this operation, if this rank has written more.
  [[nodiscard]] std::vector<int> slowest() const;

 private:
  struct Level {
    std::vector<int> sources;  // by group; this rank for its own group
  };
  /// The part of this rank, or of another rank's group, if it fits into a cache line.
  struct alignas(64) SmallPart : std::array<std::byte, 64> {};

  [[nodiscard]] std::byte* own_payload(std::size_t level) const;
  [[nodiscard]] const std::byte* payload_of(int rank, std::size_t bytes) const;
  [[nodiscard]] const std::byte* part_of(std::size_t group);
  void join_parts();
  void show(bool differs);

  NodeGroup& group_;
  const bool carries_;
  std::vector<Level> levels_;
  std::vector<int> neighbours_;
  std::uint64_t tag_ = 0;
  std::size_t slot_ = 0;
  std::uint64_t hash_ = 0;       // of the descriptor of this rank
  CarriedData* data_ = nullptr;  // null if the operation carries no data
  std::size_t level_ = 0;
  std::size_t next_ = 0;         // index of the first source in the level whose line has not come yet
  bool have_lines_come_ = true;  // whether all lines of the level have come
  SmallPart own_{};
  NodeGroup::Payload payload_;     // of this rank, if a part does not fit beside a tag
  std::vector<SmallPart> copies_;  // by group
  std::vector<const std::byte*> parts_;
  std::vector<std::byte> result_;
};

}  // namespace lockstep::detail
