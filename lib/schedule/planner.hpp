// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Selection of the radices with the lowest cost in the cost model. The choice never changes the bits of a result.

#pragma once

#include "schedule/cost_model.hpp"
#include "schedule/mixed_radix.hpp"
#include "schedule/radices.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::detail {

struct ScheduleChoice {
  Radices radices;
  int segments = 1;  ///< number of segments of the vector; the stages of one segment overlap those of another
  double time_us = 0;
  ScheduleLoad load;
};

/// The cost of the given radices, with the best number of segments, or with `segments` segments if that is not 0.
[[nodiscard]] ScheduleChoice priced(const RankLayout& layout, const CostParameters& parameters, const Radices& radices,
                                    std::int64_t bytes, int segments = 0);

/// The first stage of a plan. If the ranks of a node share memory, the node stage comes first, so that the network
/// carries every byte once per node.
enum class FirstStage : std::uint8_t { any, node };

/// The cheapest plan found for an all-reduce of `bytes` bytes: dynamic programming over splitting stages whose radices
/// are powers of two, then every possible end; the candidates with the best estimates are walked and priced. The same
/// arguments give the same plan. Costs O(log^2 P) estimates, about 48 evaluations of three nodes and a dozen walks, for
/// any P.
[[nodiscard]] ScheduleChoice plan_all_reduce(const RankLayout& layout, const CostParameters& parameters,
                                             std::int64_t bytes, FirstStage first = FirstStage::any);

}  // namespace lockstep::detail
