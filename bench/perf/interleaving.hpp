// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Interleaved measurement of several implementations of one call.

#pragma once

#include "bench/perf/implementation.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/peer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace perf {

/// Percentiles over all calls of the slowest rank's time, in microseconds.
struct Times {
  double p10 = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

/// The result of one implementation, on rank 0.
struct Outcome {
  Times times_us;
  std::optional<double> posted_us;  ///< median of the time until an asynchronous call returned
  std::optional<std::int64_t>
      wrong;  ///< number of wrong elements over all ranks and calls; none if results were not checked
};

/// Runs implementations alternately, call by call. Every rank makes the same calls.
///
/// For each implementation, a round writes the input, passes a barrier, makes one timed call, and reads (and checks)
/// the output. Only the call itself is timed. The times of all ranks are gathered after the last round. Barriers and
/// the gathering use MPI directly, on a separate communicator, so that the measured library takes no part in the
/// measurement.
class Interleaving {
 public:
  /// Collective over the job.
  explicit Interleaving(const Options& options) : options_(options), control_(MPI_COMM_WORLD) {}
  /// Collective. One outcome for each implementation, whole on rank 0 only.
  [[nodiscard]] std::vector<Outcome> run(std::span<Implementation* const> implementations);

 private:
  struct Record;
  void round(Implementation& implementation, Record& record, bool is_timed) const;
  [[nodiscard]] Outcome outcome(const Record& record) const;
  [[nodiscard]] std::vector<double> slowest_us(const std::vector<double>& seconds) const;

  const Options& options_;
  OwnComm control_;
  std::int64_t calls_ = 0;  // over all rows, so that no two consecutive calls have the same values
};

}  // namespace perf
