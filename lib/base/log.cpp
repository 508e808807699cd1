// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/log.hpp"

#include <atomic>
#include <cstdio>

namespace lockstep::detail {
namespace {
std::atomic<int> log_rank{-1};
}

void set_log_rank(int rank) noexcept { log_rank.store(rank, std::memory_order_relaxed); }

void log_line(std::string_view text) noexcept {
  const int rank = log_rank.load(std::memory_order_relaxed);
  const int length = static_cast<int>(text.size());
  // NOLINTBEGIN(bugprone-suspicious-stringview-data-usage): the length goes with the address
  // a single fprintf: stdio locks the stream during a call, so lines of several threads are not interleaved
  if (rank < 0) {
    std::fprintf(stderr, "lockstep: %.*s\n", length, text.data());
  } else {
    std::fprintf(stderr, "lockstep: [rank %d] %.*s\n", rank, length, text.data());
  }
  // NOLINTEND(bugprone-suspicious-stringview-data-usage)
}

}  // namespace lockstep::detail
