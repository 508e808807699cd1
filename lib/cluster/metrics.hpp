// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The metrics of one rank, for LOCKSTEP_METRICS: JSON lines, or a text file for Prometheus.

#pragma once

#include "base/output_file.hpp"
#include "base/time_stamp.hpp"
#include "cluster/operation_meter.hpp"

#include <chrono>
#include <map>
#include <string>

namespace lockstep::detail {

/// Values by name, as report_value sets them.
using ReportedValues = std::map<std::string, double, std::less<>>;

/// Makes report_value keep values from now on, or ignore them.
void keep_reported_values(bool keeps) noexcept;
[[nodiscard]] ReportedValues reported_values();

/// What a rank reports at one time.
struct Metrics {
  double time = 0;  ///< seconds since 1970
  std::string job;
  int rank = 0;
  int ranks = 1;
  std::string host;
  long pid = 0;
  double elapsed = 0;          ///< seconds since the start of the rank
  double seconds_of_tick = 0;  ///< duration of one tick of the time-stamp counter
  MeterTotals totals;
  ReportedValues values;
};

/// One line of JSON, with the end of the line.
[[nodiscard]] std::string to_json_line(const Metrics& metrics);
/// The text format of Prometheus.
[[nodiscard]] std::string to_prometheus(const Metrics& metrics);

/// The file of one rank. Not thread-safe.
class MetricsFile {
 public:
  /// `path` is the value of LOCKSTEP_METRICS. Opens the file. Throws Error(invalid_argument) if it cannot be written,
  /// or if it exists and is not a regular file; symbolic links are not followed.
  MetricsFile(const std::string& path, int rank, int size);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  /// Appends a line or, if the extension is ".prom", replaces the file. Throws Error(unavailable) if this fails.
  void write();

 private:
  [[nodiscard]] Metrics read() const;

  const std::string path_;
  const int rank_;
  const int size_;
  const std::string job_;
  const std::string host_;
  const bool is_prometheus_;
  const std::chrono::steady_clock::time_point start_;
  const TimeStampClock clock_;
  OutputFile file_;  // of JSON lines
};

}  // namespace lockstep::detail
