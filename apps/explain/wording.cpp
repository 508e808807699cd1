// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "explain/wording.hpp"

#include "apps/options/name_ranks.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace explain {

std::string number(Position position) {
  return position.first == 0 ? fmt::format("#{}", position.second)
                             : fmt::format("#{} after failure {}", position.second, position.first);
}

std::string name_operation(const Operation& operation) {
  if (operation.is_collective())
    return fmt::format("operation {}, {}", number(position_of(operation)), operation.text());
  return fmt::format("message #{} {} rank {}, {}", operation.sequence, operation.kind == "send" ? "to" : "from",
                     operation.peer, operation.text());
}

std::string_view state_of(const Operation& operation) {
  return operation.is_completed() ? "completed" : operation.state == "failed" ? "failed in" : "waits in";
}

double seconds_between(std::int64_t earlier, std::int64_t later) {
  return std::max(0.0, static_cast<double>(later - earlier) / 1e6);
}

std::string wall_time(std::int64_t microseconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(microseconds / 1'000'000)));
}

void RanksByText::add(const std::string& text, int rank) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const auto& each) { return each.text == text; });
  if (found != groups_.end()) {
    found->ranks.push_back(rank);
  } else {
    groups_.push_back({text, {rank}});
  }
}

std::string RanksByText::lines() const {
  std::string text;
  for (std::size_t k = 0; k < std::min(groups_.size(), most_lines); ++k)
    text += fmt::format("  {}: {}\n", options::name_ranks(groups_[k].ranks), groups_[k].text);
  if (groups_.size() > most_lines) text += fmt::format("  and {} other lines\n", groups_.size() - most_lines);
  return text;
}

}  // namespace explain
