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
  int segments = 1;  ///< number of segments of the vector; the stages of different segments overlap in time
  double time_us = 0;
  ScheduleLoad load;
};

/// The cost of the given radices with `segments` segments or, if `segments` is 0, with the best number of segments.
[[nodiscard]] ScheduleChoice priced(const RankLayout& layout, const CostParameters& parameters, const Radices& radices,
                                    std::int64_t bytes, int segments = 0);

/// The required first stage of a schedule. If the ranks of a node share memory, the node stage must come first, so that
/// the network carries every byte once per node.
enum class FirstStage : std::uint8_t { any, node };

/// The cheapest schedule that is found for an all-reduce of `bytes` bytes. Dynamic programming chooses the splitting
/// stages, with radices that are powers of two. Each choice is tried with several endings: one last stage that joins
/// all remaining groups, by splitting or by replicating, or recursive doubling with a radix from 2 to 16. For P ranks,
/// this takes O(log^2 P) closed-form estimates. Then at most 48 candidates with the best estimates are evaluated with
/// WalkedRanks::few, and about a dozen with WalkedRanks::representative. The same arguments give the same schedule.
[[nodiscard]] ScheduleChoice plan_all_reduce(const RankLayout& layout, const CostParameters& parameters,
                                             std::int64_t bytes, FirstStage first = FirstStage::any);

}  // namespace lockstep::detail
