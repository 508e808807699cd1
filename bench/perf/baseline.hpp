// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The results of an earlier run, for comparison.

#pragma once

#include "bench/perf/row.hpp"

#include <optional>
#include <span>
#include <string>
#include <unordered_map>

namespace perf {

class Baseline {
 public:
  /// No baseline.
  Baseline() = default;
  /// Reads a file that --json of an earlier run wrote. Throws OptionError if the file cannot be read, is not such a
  /// file, has results of another number of ranks, or has none of the rows of this run. Local.
  Baseline(const std::string& file_name, int ranks, std::span<const Identity> rows);

  [[nodiscard]] std::optional<double> time_us(const Identity& row) const;
  /// "FILE: lockstep 0.1.0 of 2026-11-21 05:33:37 UTC, thread level multiple"
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  std::unordered_map<std::string, double> times_us_;  // by the text of a row's identity
};

}  // namespace perf
