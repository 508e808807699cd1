// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The named ranges of this process (TraceRange) that are complete, until the writer of the trace takes them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Trivially copyable: trace files store it as bytes.
struct CompleteRange {
  std::uint64_t begin = 0;  ///< time stamps
  std::uint64_t end = 0;
  std::uint32_t name = 0;    ///< number of the name, from 0
  std::uint32_t thread = 0;  ///< number of the thread, from 0, in the order of their first ranges
};

struct TakenRanges {
  std::vector<CompleteRange> ranges;
  std::vector<std::string> new_names;  ///< names that no earlier result has
  std::uint64_t dropped = 0;           ///< ranges since keep_trace_ranges that were left out: there were too many
};

/// Number of ranges that are kept for the next call of take_trace_ranges.
inline constexpr std::size_t most_ranges = 16'384;
/// Number of different names.
inline constexpr std::size_t most_range_names = 1024;

/// Makes TraceRange keep ranges from now on, or ignore them.
void keep_trace_ranges(bool keeps);
/// Thread-safe.
[[nodiscard]] TakenRanges take_trace_ranges();

}  // namespace lockstep::detail
