// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Phrases for the texts of errors and warnings.

#pragma once

#include <fmt/ranges.h>

#include <chrono>
#include <span>
#include <string>

namespace lockstep::detail {

[[nodiscard]] constexpr double seconds(std::chrono::duration<double> duration) noexcept { return duration.count(); }

/// "rank 2", "ranks 0, 2".
[[nodiscard]] inline std::string ranks_phrase(std::span<const int> ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace lockstep::detail
