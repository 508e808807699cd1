// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Phrases for the texts of errors and warnings.

#pragma once

#include <fmt/ranges.h>

#include <chrono>
#include <concepts>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::detail {

[[nodiscard]] constexpr double seconds(std::chrono::duration<double> duration) noexcept { return duration.count(); }

/// "1 replica", "2 replicas". `plural`: the plural of `noun` if it is not `noun` with an s.
template <std::integral Number>
[[nodiscard]] std::string counted(Number count, std::string_view noun, std::string_view plural = {}) {
  if (count == Number{1}) return fmt::format("{} {}", count, noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

/// "rank 2", "ranks 0, 2".
[[nodiscard]] inline std::string ranks_phrase(std::span<const int> ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace lockstep::detail
