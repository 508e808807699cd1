// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf --node-report: what a node with many ranks is like, and what lockstep makes of it.

#pragma once

#include "bench/perf/peer.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <cstdint>
#include <span>

namespace perf {

inline constexpr const char* node_report_help =
    "print how far ranks are from rank 0, and what lockstep does at each size; then measure from 8 bytes to 64 MiB, in "
    "place in the arena, beside MPI, unless -b, -e, -f, --in-place, --memory or --compare is given";

/// Prints, on rank 0, the round trip of a cache line between rank 0 and ranks at growing distances, and the schedule of
/// each size. `node` has the ranks of the node of rank 0; it is measured on all nodes. Collective over `world`.
void report_node(const OwnComm& node, const lockstep::Communicator& world, std::span<const std::int64_t> sizes_bytes);

}  // namespace perf
