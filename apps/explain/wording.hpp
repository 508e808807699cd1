// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks, operations and times in words.

#pragma once

#include "explain/history.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace explain {

/// Lines of one kind that are shown; a job may have thousands of ranks.
inline constexpr std::size_t most_lines = 8;

/// "#5", "#5 after failure 2".
[[nodiscard]] std::string number(Position position);
[[nodiscard]] inline Position position_of(const Operation& operation) { return {operation.epoch, operation.sequence}; }

/// "operation #3, barrier at app/train.cpp:12", "message #3 to rank 1, send of f32 [4] at app/train.cpp:12".
[[nodiscard]] std::string name_operation(const Operation& operation);
/// "completed", "waits in" or "failed in".
[[nodiscard]] std::string_view state_of(const Operation& operation);

/// The seconds from `earlier` to `later`, both in microseconds; not negative.
[[nodiscard]] double seconds_between(std::int64_t earlier, std::int64_t later);
/// Local time.
[[nodiscard]] std::string wall_time(std::int64_t microseconds);

/// Ranks that have the same text, in the order in which texts are added.
class RanksByText {
 public:
  struct Group {
    std::string text;
    std::vector<int> ranks;
  };
  void add(const std::string& text, int rank);
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  /// "  ranks 0, 2: text" for each text.
  [[nodiscard]] std::string lines() const;

 private:
  std::vector<Group> groups_;
};

}  // namespace explain
