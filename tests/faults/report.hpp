// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank has seen: one JSON object per line in FOLDER/rank.RANK, written at once, so that it outlives the rank.

#pragma once

#include "settings.hpp"

#include <lockstep/base/error.hpp>

#include <string_view>

namespace faults {

/// Seconds of CLOCK_MONOTONIC, which all processes of a machine share.
[[nodiscard]] double now();

class Report {
 public:
  /// Opens the file for the rank; before that, lines go to FOLDER/rank.start.PID.
  void open(const Settings& settings);
  /// Writes {"at": at, "t": now} and, if it is not empty, "text".
  void line(std::string_view at, std::string_view text = {}) const;
  /// Writes an error with its code and the rank that it names.
  void error(std::string_view at, const lockstep::Error& error, double begin) const;
  /// Writes that this rank has got a std::bad_alloc.
  void shortage(double begin) const;
  [[nodiscard]] double event_time() const;  ///< time of the event, 0 before it
  /// Writes that the event happens now. Thread-safe.
  void event() const;

 private:
  void write(const std::string& text) const;

  std::filesystem::path folder_;
  int file_ = -1;
};

}  // namespace faults
