// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf --simulate: the time of an all_reduce on a simulated cluster, by lockstep's own cost model.

#pragma once

#include <lockstep/collectives/schedule_model.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace perf {

struct Simulation {
  lockstep::ModelledCluster cluster;
  std::string radices;  ///< empty: chosen by the planner
};

/// Default of the largest size.
inline constexpr std::int64_t simulated_max_bytes = std::int64_t{128} << 20;

inline constexpr const char* simulation_help =
    "measure nothing; print the modelled time of all_reduce on a cluster: ranks=N,nodes=N,latency_us=X,gbit=X, and "
    "optionally overhead_us=X,memory_gbs=X,radices=LIST (sizes: 8 to 128M)";

/// "ranks=1024,nodes=128,latency_us=1,gbit=100". Local. Throws OptionError, which names `option`, the text and the
/// rule.
[[nodiscard]] Simulation parse_simulation(std::string_view option, const std::string& text);

/// Prints a table with a row per size. Local.
void simulate(const Simulation& simulation, std::span<const std::int64_t> sizes_bytes);

}  // namespace perf
