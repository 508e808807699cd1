// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls of a run, known before the first measurement. All functions are local.

#pragma once

#include "bench/perf/case.hpp"
#include "bench/perf/list_call.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/row.hpp"

#include <cstdint>
#include <vector>

namespace perf {

/// The calls of a run: cases, or lists.
struct RunPlan {
  std::vector<Case> cases;
  std::vector<ListCase> lists;
};
/// The calls that `options` name.
[[nodiscard]] RunPlan run_plan_of(const Options& options, const Job& job);

[[nodiscard]] Identity identity_of(const Case& what, const Job& job);
[[nodiscard]] Identity identity_of(const ListCase& what, ListMode mode, const Job& job);
/// The identities of all rows of the plan.
[[nodiscard]] std::vector<Identity> identities_of(const RunPlan& plan, const Options& options, const Job& job);

/// The bytes of memory that a rank needs for the plan.
[[nodiscard]] std::int64_t memory_bytes(const RunPlan& plan, const Options& options, const Job& job);

}  // namespace perf
