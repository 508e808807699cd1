// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What rank 0 tells the user: the table with the environment above it, and the same as JSON, CSV and a picture.

#pragma once

#include "baseline.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "table.hpp"

#include <optional>
#include <string>
#include <vector>

namespace perf {

/// Pinned. On ranks other than 0 nothing is ever printed or written.
class Report {
 public:
  /// Prints the header. `round_trip_us` is the cache line's, before the run.
  Report(const Options& options, const Machine& machine, const Baseline& baseline, std::optional<double> round_trip_us,
         bool speaks);
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void line(Line line);
  /// The footer, the files, the picture. Throws std::runtime_error when one cannot be written.
  void finish(std::optional<double> round_trip_us);

 private:
  void header() const;
  void osu_line(const Line& line);
  void footer(std::optional<double> round_trip_us) const;
  void warnings(std::optional<double> round_trip_us) const;
  void write_files(std::optional<double> round_trip_us) const;

  const Options& options_;
  const Machine& machine_;
  const Baseline& baseline_;
  Table table_;
  std::optional<double> round_trip_before_us_;
  bool speaks_;
  std::string group_;  // what the last heading was of
  std::vector<Row> rows_;
};

}  // namespace perf
