// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The traces of all ranks of a job, on one clock.

#pragma once

#include "cluster/trace_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// What is added to the CLOCK_MONOTONIC of one rank for that of the reference rank, which is the lowest rank. Linear
/// between the points, constant outside; no points: zero. In nanoseconds.
struct ClockOffset {
  std::vector<std::pair<double, double>> points;  ///< time of the rank, offset; in ascending order
  double uncertainty = 0;  ///< largest error; negative: unknown, because only wall clocks were compared

  [[nodiscard]] double at(double time) const;
};

/// Offsets of all ranks, in the order of `ranks`. Ranks with the same RankTrace::clock have the same offset.
///
/// For two ranks a and b of a collective that has succeeded, a posts the operation before b knows that all ranks have
/// arrived, and the reverse. So each collective gives a lower and an upper bound of the offset between their clocks.
/// Per interval of 10 s, the tightest bounds are taken, and the offset is their mean; the error is at most half of
/// their difference. It is as small as the time of an agreement if ranks of both hosts arrive last in some operations.
[[nodiscard]] std::vector<ClockOffset> align_clocks(const std::vector<RankTrace>& ranks);

/// A collective of one rank or a message, with times in nanoseconds since the start of the trace.
struct TimedOperation {
  std::size_t rank = 0;          ///< index in JobTrace::ranks
  std::size_t group = 0;         ///< index in RankTrace::groups
  std::size_t communicator = 0;  ///< equal for all ranks of a communicator
  const MeteredOperation* operation = nullptr;
  const MeteredCall* call = nullptr;  ///< never null
  double posted = 0;
  double begin = 0;   ///< when it was posted, and earlier operations of the communicator were done
  double agreed = 0;  ///< when all ranks had arrived; the end if they did not
  double end = 0;
  int last_rank = -1;   ///< job rank that arrived last; -1: unknown
  double lateness = 0;  ///< time between the arrivals of the last two ranks

  [[nodiscard]] bool is_message() const noexcept { return operation->type == MeteredOperation::Type::message; }
};

struct Interval {
  double begin = 0;
  double end = 0;
};

struct JobTrace {
  std::vector<RankTrace> ranks;      ///< in the order of their ranks
  std::vector<ClockOffset> offsets;  ///< of `ranks`
  std::vector<TimedOperation> operations;
  /// Indices of collectives in `operations`: for each operation that several ranks have in their files, in the order of
  /// their arrival.
  std::vector<std::vector<std::size_t>> matches;
  std::vector<std::vector<Interval>> waits;   ///< times in which a thread waited for an operation, for each rank
  std::vector<std::vector<Interval>> ranges;  ///< times of RankTrace::ranges
  double duration = 0;

  /// Number of a rank of the job.
  [[nodiscard]] int rank_of(const TimedOperation& operation) const { return ranks[operation.rank].rank; }
};

/// Aligns the clocks and matches the operations.
[[nodiscard]] JobTrace merge_ranks(std::vector<RankTrace> ranks);

/// Passes the JSON of the trace to `write`, in parts.
void write_events(const JobTrace& trace, const std::function<void(std::string_view)>& write);

/// Some lines of text.
[[nodiscard]] std::string summarize(const JobTrace& trace);

/// Merges the trace of this job at its end, on rank 0, and logs the path of the result. If the files are large, only
/// logs how to merge them.
void merge_trace_of_this_job(const std::string& directory, int size) noexcept;

/// Size of the files of all ranks that merge_trace_of_this_job merges at most.
inline constexpr std::uint64_t most_bytes_merged_at_end = std::uint64_t{8} << 20;

}  // namespace lockstep::detail
