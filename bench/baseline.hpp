// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An earlier run, to compare this one with.

#pragma once

#include "row.hpp"

#include <optional>
#include <span>
#include <string>
#include <unordered_map>

namespace perf {

class Baseline {
 public:
  /// None.
  Baseline() = default;
  /// Reads what --json of an earlier run wrote. Throws OptionError when the file cannot be read, is no such file, is of
  /// another number of ranks, or has none of the rows that this run will have. Local.
  Baseline(const std::string& file_name, int ranks, std::span<const Identity> rows);

  [[nodiscard]] std::optional<double> time_us(const Identity& row) const;
  /// "FILE: lockstep 0.1.0 of 2026-11-21 05:33:37 UTC, thread level multiple"
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  std::unordered_map<std::string, double> times_us_;  // of a row's identity
};

}  // namespace perf
