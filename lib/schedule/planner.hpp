// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which radices are the cheapest, by the cost model. Whatever it says, the bits of a result stay the same.

#pragma once

#include "schedule/cost_model.hpp"
#include "schedule/radices.hpp"
#include "schedule/rank_layout.hpp"

#include <cstdint>
#include <vector>

namespace lockstep::detail {

struct ScheduleChoice {
  Radices radices;
  int chunks = 1;  ///< into which the vector is cut, so that stages of one overlap those of another
  double time_us = 0;
  ScheduleLoad load;
};

/// The price of given radices, at the best number of chunks, or at `chunks` of them where that is not 0.
[[nodiscard]] ScheduleChoice priced(const RankLayout& layout, const CostParameters& parameters, const Radices& radices,
                                    std::int64_t bytes, int chunks = 0);

/// What a plan may begin with. Nodes go first where their ranks share memory, so that the network carries every byte
/// once per node.
enum class FirstStage : std::uint8_t { any, node };

/// The cheapest plan found for an all-reduce of `bytes` bytes: dynamic programming over the splitting stages with
/// radices that are powers of two, then each way to end; what looks best is walked and priced. The same arguments give
/// the same plan. Costs O(log^2 P) estimates, four dozen looks at three nodes and a dozen walks, whatever P.
[[nodiscard]] ScheduleChoice plan_all_reduce(const RankLayout& layout, const CostParameters& parameters,
                                             std::int64_t bytes, FirstStage first = FirstStage::any);

}  // namespace lockstep::detail
