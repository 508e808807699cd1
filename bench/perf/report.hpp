// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The output of rank 0: the table with the environment above it, and the same as JSON, CSV and a plot.

#pragma once

#include "bench/perf/baseline.hpp"
#include "bench/perf/machine.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/table.hpp"

#include <optional>
#include <string>
#include <vector>

namespace perf {

/// Pinned. Ranks other than 0 print and write nothing.
class Report {
 public:
  /// Prints the header. `round_trip_us` is the round trip of a cache line before the run.
  Report(const Options& options, const Machine& machine, const Baseline& baseline, std::optional<double> round_trip_us,
         bool speaks);
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void line(Line line);
  /// Prints the footer and writes the files and the plot. Throws std::runtime_error if one cannot be written.
  void finish(std::optional<double> round_trip_us);

 private:
  void header() const;
  void osu_line(const Line& line);
  void footer(std::optional<double> round_trip_us) const;
  void comparison() const;
  void warnings(std::optional<double> round_trip_us) const;
  /// Writes the files and the plot.
  void write_files(std::optional<double> round_trip_us) const;

  const Options& options_;
  const Machine& machine_;
  const Baseline& baseline_;
  Table table_;
  std::optional<double> round_trip_before_us_;
  bool speaks_;
  std::string group_;  // identity of the last heading
  std::vector<Row> rows_;
};

}  // namespace perf
