// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of a scenario that can be left out, so that a run that fails becomes a small one.

#pragma once

#include "simulation/scenario.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::simulation {

inline constexpr std::string_view cuts_text =
    R"(delays, deaths (ranks stop instead), memory (shortages become other faults), pauses (before other faults), departures (of ranks with an error), lateness (beyond the time until heartbeats),
creation (of the communicator, together), first-failure, calls (other than those of common kinds), messages (between two ranks), steps (of strategies), requests (that are left open), recovery (at once), preemption, stale (loads of older values), mappings (ranks are threads of one process), work (ranks stop outside of it), places (one cache), turns (short ones), private (memory, and many messages at once), processors (more than two), replicas (one per rank), rank=R, fault=K, before=N and after=N (operations before and after operation N))";

/// Leaves one part of `scenario` out. A number is that of the scenario before this cut. Returns false, and changes
/// nothing, if there is no such part.
[[nodiscard]] bool cut(Scenario& scenario, const std::string& part);

/// The cuts of `scenario` that are worth a try, the largest first.
[[nodiscard]] std::vector<std::string> possible_cuts(const Scenario& scenario);

}  // namespace lockstep::simulation
