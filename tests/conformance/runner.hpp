// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Cases from the file, and one case run on one rank.

#pragma once

#include "conformance/results.hpp"

#include <lockstep/lockstep.hpp>

#include <functional>
#include <string>
#include <vector>

namespace lockstep::conformance {

/// Placement of the replicas of a case.
struct Placement {
  std::string strategy;     ///< as in the case's layout
  std::vector<int> counts;  ///< replicas of each rank
  bool moved = false;       ///< not the case's own placement
};

/// All cases of cases.json.
const Json& all_cases();

/// The reason why a case has no counterpart in C++; empty for all others.
std::string not_applicable(const Json& one_case);

/// The reason why a case runs only on hosts; empty for all others.
std::string not_for_gpus(const Json& one_case);

/// The case's own placement, then those that must not change its results.
std::vector<Placement> placements_of(const Json& one_case);

/// Only calls that are to time out have a short deadline: that of the call.
CommunicatorOptions options_with_a_long_deadline();

/// Runs the steps on the calling rank; returns a text for each failed check. `communicator` is that of a multi-worker
/// placement, unused otherwise.
std::vector<std::string> run_case(const Json& one_case, const Placement& placement, Communicator* communicator);

}  // namespace lockstep::conformance
