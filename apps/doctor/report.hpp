// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The findings as text and as JSON.

#pragma once

#include "doctor/checks.hpp"

#include <string>
#include <vector>

namespace doctor {

enum class Colors { off, on };

/// A line for each finding, by group, and a line for each remedy; the last line counts errors and warnings.
[[nodiscard]] std::string to_text(const std::vector<Finding>& findings, Colors colors);

/// {"lockstep": version, "exit_code", "findings": [...], "links": [...], "ranks": [...]}.
[[nodiscard]] std::string to_json(const JobFacts& job, const std::vector<Finding>& findings,
                                  const std::string& version);

}  // namespace doctor
