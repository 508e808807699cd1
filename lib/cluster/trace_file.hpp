// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The trace file of one rank: a sequence of records, each with a header. A file whose rank was killed ends anywhere.
// The format is that of one version of lockstep on one kind of processor; merge_trace makes a file that lasts.

#pragma once

#include "cluster/operation_meter.hpp"
#include "cluster/trace_ranges.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Begin of a trace file.
inline constexpr std::string_view trace_magic = "lockstep trace 1";

enum class TraceRecordType : std::uint32_t {
  text,        ///< JSON
  operations,  ///< MeteredOperation, of the communicator `group`
  ranges,      ///< CompleteRange
  clock,       ///< ClockReading
};

struct TraceRecordHeader {
  TraceRecordType type = TraceRecordType::text;
  std::uint32_t group = 0;
  std::uint64_t bytes = 0;  ///< size of the record, without the header
};

/// The time-stamp counter and CLOCK_MONOTONIC at one moment.
struct ClockReading {
  std::uint64_t stamp = 0;
  std::int64_t nanoseconds = 0;
};

/// "lockstep-<job>-rank"; the number of the rank and trace_suffix follow.
[[nodiscard]] std::string trace_prefix(const std::string& job);
inline constexpr std::string_view trace_suffix = ".trace";

/// A communicator in a trace file.
struct TracedGroup {
  MeteredGroup group;
  std::vector<MeteredCall> calls;
  std::vector<MeteredOperation> operations;
};

/// The content of a trace file.
struct RankTrace {
  std::string path;
  std::string job;
  int rank = 0;
  int size = 1;
  std::string host;
  long pid = 0;
  std::string clock;             ///< ranks with the same text share CLOCK_MONOTONIC
  std::int64_t wall_offset = 0;  ///< nanoseconds since 1970, minus CLOCK_MONOTONIC
  std::vector<ClockReading> readings;
  std::vector<TracedGroup> groups;
  std::vector<std::string> range_names;
  std::vector<CompleteRange> ranges;
  std::uint64_t dropped = 0;  ///< operations and ranges that are not in the file
  bool has_end = false;       ///< the rank has closed the file

  /// CLOCK_MONOTONIC of the rank, in nanoseconds.
  [[nodiscard]] double nanoseconds(std::uint64_t stamp) const;
};

/// Throws Error(data_loss) if the file is not a trace file, and Error(unavailable) if it cannot be read.
[[nodiscard]] RankTrace read_trace_file(const std::string& path);

}  // namespace lockstep::detail
