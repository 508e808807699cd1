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

/// Where a case is run.
struct Placement {
  std::string strategy;     ///< as in the case's layout
  std::vector<int> counts;  ///< replicas of each rank
  bool moved = false;       ///< other than the case's own
};

/// All cases of cases.json.
const Json& all_cases();

/// Why a case has no counterpart in C++; empty for all others.
std::string not_applicable(const Json& one_case);

/// Why a case is one of hosts; empty for all others.
std::string not_for_gpus(const Json& one_case);

/// The case's own placement, then those that must not change its results.
std::vector<Placement> placements_of(const Json& one_case);

/// Deadlines as the case wants them.
CommunicatorOptions options_of(const Json& one_case);

/// Runs the steps on the calling rank; each text says what was wrong. `communicator` is that of a multi-worker
/// placement, unused otherwise.
std::vector<std::string> run_case(const Json& one_case, const Placement& placement, Communicator* communicator);

}  // namespace lockstep::conformance
