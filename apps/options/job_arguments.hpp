// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The command line of the programs that read files of a job.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace options {

/// [--job NAME] PATH..., --help, --version.
struct JobArguments {
  std::optional<std::string> job;
  std::vector<std::string> paths;
  std::string error;  ///< what is wrong with the arguments; empty if nothing is
  bool wants_help = false;
  bool wants_version = false;
};

/// `needed` names the paths, for the error if there are none. Local.
[[nodiscard]] inline JobArguments parse_job_arguments(const std::vector<std::string>& arguments,
                                                      std::string_view needed) {
  constexpr std::string_view job = "--job=";
  JobArguments result;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const std::string& each = arguments[k];
    if (each == "--help" || each == "-h") {
      result.wants_help = true;
    } else if (each == "--version") {
      result.wants_version = true;
    } else if (each == "--job") {
      if (k + 1 == arguments.size()) {
        result.error = "--job: expected the name of a job after it";
      } else {
        result.job = arguments[++k];
      }
    } else if (each.starts_with(job)) {
      result.job = each.substr(job.size());
    } else if (each.size() > 1 && each.front() == '-') {
      result.error = each + ": unknown option";
    } else {
      result.paths.push_back(each);
    }
  }
  if (result.error.empty() && result.paths.empty()) result.error = "expected " + std::string(needed);
  return result;
}

}  // namespace options
