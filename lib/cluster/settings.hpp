// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What LOCKSTEP_* variables say.

#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lockstep::detail {

struct Settings {
  std::chrono::milliseconds warn_after{30'000};
  std::chrono::milliseconds fail_after{300'000};
  bool force_canonical_order = false;
  bool allow_singleton = false;
  bool share_memory = true;
  std::string radices;  ///< empty: chosen by the planner
};

/// Reads the environment. Throws Error(invalid_argument) that names the variable, its value and the rule.
///   LOCKSTEP_TIMEOUT=FAIL or WARN,FAIL   seconds, decimals allowed, 0 < WARN <= FAIL
///   LOCKSTEP_ORDER=canonical             reductions that ask for any order get the canonical one
///   LOCKSTEP_RADICES=LIST                stages of every all_reduce, as schedule/radices reads them
///   LOCKSTEP_SHARED_MEMORY=0             ranks of one node exchange messages, as ranks of different nodes do
///   LOCKSTEP_ALLOW_SINGLETON=1           one MPI rank is fine although the launcher started several
[[nodiscard]] Settings settings_from_environment();

/// Prints each LOCKSTEP_* variable that nobody reads, once per process. LOCKSTEP_TRAIN_* and LOCKSTEP_PERF_* belong to
/// programs.
void report_unknown_variables();

}  // namespace lockstep::detail
