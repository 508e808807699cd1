// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// From observed facts to findings: pure functions.

#pragma once

#include "doctor/facts.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace doctor {

enum class Severity { ok, note, warning, error };
[[nodiscard]] std::string_view name_of(Severity severity);

struct Finding {
  Severity severity = Severity::ok;
  std::string group;
  std::string text;
  std::string remedy;      ///< empty only for `ok`
  std::vector<int> ranks;  ///< sorted; empty: all ranks
};

/// A link or rank is slow if it is this much worse than the median of its kind.
inline constexpr double slow_factor = 3;
/// The smallest number of links or ranks of a kind that has a median to compare with.
inline constexpr std::size_t least_of_kind = 3;
/// Below this bandwidth (1 Gbit/s is 0.125) a link between hosts is slow, however few links there are.
inline constexpr double least_bandwidth_gbs = 0.1;

/// Each group of checks; a check without a finding adds one `ok` or, if it cannot be made, a `note`.
void check_start(const JobFacts& job, std::vector<Finding>& findings);
void check_variables(const JobFacts& job, std::vector<Finding>& findings);
void check_processors(const JobFacts& job, std::vector<Finding>& findings);
void check_memory(const JobFacts& job, std::vector<Finding>& findings);
void check_network(const JobFacts& job, std::vector<Finding>& findings);
void check_gpus(const JobFacts& job, std::vector<Finding>& findings);
void check_speed(const JobFacts& job, std::vector<Finding>& findings);

/// All of them. Findings that differ only in their ranks are merged.
[[nodiscard]] std::vector<Finding> check_all(const JobFacts& job);

/// The exit code for `findings`: 0, or 3 if one is an error.
[[nodiscard]] int exit_code_of(const std::vector<Finding>& findings);

/// The name in `known` that `name` is a misspelling of; empty if none is near.
[[nodiscard]] std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// The median of `values`, which are not empty.
[[nodiscard]] double median_of(std::vector<double> values);

}  // namespace doctor
