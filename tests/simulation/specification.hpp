// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a job must show, given its scenario. README.md states the rules and their reasons.

#pragma once

#include "simulation/job.hpp"
#include "simulation/scenario.hpp"

#include <string>
#include <vector>

namespace lockstep::simulation {

/// The rules that the job has broken; empty if there are none.
[[nodiscard]] std::vector<std::string> violations(const Scenario& scenario, const Report& report);

/// The ranks that the text of an error blames: those it waited for, those that have left, and those whose calls it
/// compares.
[[nodiscard]] std::vector<int> blamed(const std::string& text);

/// The text without what only one rank can know: how far its own data had come, and where it saw other ranks wait.
[[nodiscard]] std::string common_part(const std::string& text);

}  // namespace lockstep::simulation
