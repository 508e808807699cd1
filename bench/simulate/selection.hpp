// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf --show-selection: which schedule lockstep chooses at which size, for this job or for a simulated one.

#pragma once

#include "bench/simulate/simulation.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace perf {

inline constexpr const char* selection_help =
    "measure nothing; print what all_reduce does at each size, with buffers from the arena and from elsewhere, in this "
    "job or in that of --simulate";

/// "# transport   ...": by which data goes between the nodes of `job`, and why.
[[nodiscard]] std::string transport_line(const lockstep::Communicator& job);

/// Prints a table with two rows per size. Local. Throws OptionError for a cluster whose `radices` are given.
void show_selection(const lockstep::Communicator& job, const std::optional<Simulation>& simulation,
                    std::span<const std::int64_t> sizes_bytes);

}  // namespace perf
