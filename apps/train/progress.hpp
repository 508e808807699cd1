// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The progress of a run: a bar on a terminal, lines elsewhere.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace train {

enum class ProgressStyle {
  bar,         ///< one line, drawn anew
  bar_colour,  ///< the same in colour
  lines,       ///< a line for each state
};

/// The style for standard output: lines, unless it is a terminal that can move its cursor (TERM is set and is not
/// dumb). Under a launcher, whose pipe or pseudo-terminal is the output of this process, the launcher's own output
/// decides. No colour if NO_COLOR is set. Local.
[[nodiscard]] ProgressStyle style_of_output();

/// Prints to standard output. Not thread-safe.
class Progress {
 public:
  explicit Progress(ProgressStyle style);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  [[nodiscard]] bool is_bar() const noexcept { return style_ != ProgressStyle::lines; }
  /// Whether to show the progress now. A bar is drawn ten times a second; lines come every second at first, then at
  /// intervals of a fiftieth of the elapsed time, at most a minute.
  [[nodiscard]] bool is_due() const;
  /// Draws the bar after `step` of `steps`, followed by `text`, which is cut at the width of the terminal.
  void draw(std::int64_t step, std::int64_t steps, const std::string& text);
  /// Prints a line.
  void print(const std::string& text);
  /// Removes the bar. Required before other output.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  ProgressStyle style_;
  bool is_drawn_ = false;
  Clock::time_point start_;
  Clock::time_point last_;
};

}  // namespace train
