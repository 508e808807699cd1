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

}  // namespace lockstep::simulation
