// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How a row is measured.

#pragma once

#include "contestant.hpp"
#include "options.hpp"
#include "peer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace perf {

/// Of the slowest rank's times of all calls, in microseconds.
struct Times {
  double p10 = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

/// The value below which a fraction of the values lie, interpolated between neighbours; 0.5: the median. Local.
[[nodiscard]] double percentile(std::vector<double> values, double fraction);

/// What rank 0 knows of a contestant afterwards.
struct Outcome {
  Times times_us;
  std::optional<double> posted_us;    ///< median, until an asynchronous call returned
  std::optional<std::int64_t> wrong;  ///< elements of all ranks and calls; none when results were not checked
};

/// Lets contestants take turns. Every rank makes the same calls.
///
/// A round is: write the input, barrier, one timed call, read (and check) the output; then the same for the next
/// contestant, with buffers of its own. Nothing but the call itself is timed; the times of all ranks meet after the
/// last round. Barriers and the gathering of times go over a communicator of their own, through MPI itself: what is
/// measured does not measure itself.
class Turns {
 public:
  /// Collective over the job.
  explicit Turns(const Options& options) : options_(options), control_(MPI_COMM_WORLD) {}
  /// Collective. One outcome for each contestant, whole on rank 0 only.
  [[nodiscard]] std::vector<Outcome> run(std::span<Contestant* const> contestants);

 private:
  struct Record;
  void round(Contestant& contestant, Record& record, bool is_timed) const;
  [[nodiscard]] Outcome outcome(const Record& record) const;
  [[nodiscard]] std::vector<double> slowest_us(const std::vector<double>& seconds) const;

  const Options& options_;
  OwnComm control_;
  std::int64_t calls_ = 0;  // of all rows: no two in a row have the same values
};

}  // namespace perf
