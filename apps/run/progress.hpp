// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// Shows the metrics of the ranks on stderr: a status area under the program's output, or lines.

#pragma once

#include "run/metrics.hpp"
#include "run/options.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace run {

class Progress {
 public:
  /// `mode` is not `automatic`. `file` is the value of LOCKSTEP_METRICS.
  Progress(ProgressMode mode, std::filesystem::path file, int ranks, double every_s);

  /// Reads the metrics and shows them if it is time to; cheap if it is not.
  void update();
  /// Writes output of the program to descriptor `fd`, above the status area.
  void write_output(int fd, std::string_view output);
  /// Erases the status area, at the end and before the program stops.
  void erase();

  [[nodiscard]] bool is_live() const { return mode_ == ProgressMode::live; }

 private:
  void draw();
  [[nodiscard]] std::string status(const Summary& summary) const;

  ProgressMode mode_;
  std::filesystem::path file_;
  int ranks_;
  std::chrono::duration<double> every_;
  double start_;                                // seconds since 1970
  std::chrono::steady_clock::time_point next_;  // time of the next update
  double shown_ = 0;                            // time of the newest record that a line has shown
  std::string status_;                          // lines of the status area; empty before the first record
  int drawn_lines_ = 0;                         // lines of the status area that are on the terminal
  bool at_line_start_ = true;                   // whether the program's output ends with a newline
};

/// The mode for `automatic`: live if stderr is a terminal that can move its cursor.
[[nodiscard]] ProgressMode resolve(ProgressMode mode);

/// Writes all of `text`; gives up if the descriptor is closed.
void write_all(int fd, std::string_view text);

}  // namespace run
