// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs a scenario in virtual time: ranks are groups of threads, which take turns as the seed says.

#pragma once

#include <lockstep/base/error.hpp>

#include "races/races.hpp"
#include "simulation/scenario.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::simulation {

/// The error of a rank.
struct Failure {
  int operation = -1;  ///< index in Scenario::operations
  Code code = Code::internal;
  std::string text;
  int rank = -1;  ///< Error::rank()
  std::chrono::nanoseconds at{};
};

/// What a rank has seen.
struct Outcome {
  std::optional<Failure> failure;  ///< none if it has completed all operations
  std::optional<Failure> after;    ///< of the operations after `recover`
  /// The error of an operation of Kind::messages. Operations before it, which were left open, may have failed, too.
  std::optional<Failure> of_message;
  std::vector<std::string> wrong;  ///< results that are not right
  bool has_communicator = true;
  std::optional<std::chrono::nanoseconds> recovers_at;  ///< when it has called `recover`, or ended it
  bool lacks_memory_in_recovery = false;                ///< or in the operations after it
  int completed = 0;                                    ///< operations
  std::optional<std::chrono::nanoseconds>
      fault_at;  ///< when the fault of this rank began; none if it has none, or did not come to it
  std::optional<std::chrono::nanoseconds> left_at;  ///< when the last request on its communicator had ended, too
};

/// The threads of rank r are group r + 1; those of the simulation itself are group 0.
constexpr int group_of(int rank) { return rank + 1; }

struct Report {
  std::vector<Outcome> ranks;
  std::vector<std::string> hangs;  ///< ranks that had not ended when they should have
  std::vector<races::Race> races;
  std::uint64_t accesses = 0;     ///< that were checked
  std::uint64_t stale_loads = 0;  ///< of atomics
  std::uint64_t history = 0;
  std::uint64_t turns = 0;
  std::chrono::nanoseconds duration{};
};

/// `trace`: prints what each rank does, with its time.
[[nodiscard]] Report run(const Scenario& scenario, bool trace);

}  // namespace lockstep::simulation
