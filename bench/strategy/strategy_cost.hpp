// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf --strategy: the time that the strategy layer adds to the calls below it.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace perf {

inline constexpr const char* strategy_help =
    "measure the strategy layer: run, reduce, all_reduce in a step, batch_reduce_to and update, with 1, 2 and 4 "
    "replicas per rank, each alternating with the call below it";

/// One call of the strategy layer, interleaved with the call that a program without the layer would make.
struct StrategyCost {
  std::string call;
  std::string below;  ///< name of the interleaved call; empty if there is none
  int replicas_per_rank = 1;
  double us = 0;        ///< median of rounds, per call, on rank 0
  double below_us = 0;  ///< the same
  bool is_right = true;
};

/// Measures `iterations` rounds of each call. Collective over `job`; the results are those of rank 0.
[[nodiscard]] std::vector<StrategyCost> measure_strategy(const lockstep::Communicator& job, std::int64_t iterations);

/// Prints a table. Local.
void print_strategy_costs(const std::vector<StrategyCost>& costs, const lockstep::Communicator& job);

}  // namespace perf
