// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/node_report.hpp"

#include "bench/perf/ping_pong.hpp"

#include <lockstep/collectives/schedule_model.hpp>

#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <optional>
#include <vector>

namespace perf {
namespace {

/// Ranks at the ends of groups of all powers of two, and the last rank.
std::vector<int> ranks_to_reach(int ranks) {
  std::vector<int> reached;
  for (int rank = 1; rank < ranks; rank *= 2) {
    reached.push_back(rank);
    if (rank > 1 && 2 * rank - 1 < ranks - 1) reached.push_back(2 * rank - 1);
  }
  if (ranks > 1 && reached.back() != ranks - 1) reached.push_back(ranks - 1);
  return reached;
}

std::optional<double> round_trip_us(const OwnComm& node, int other) {
  MPI_Comm pair = MPI_COMM_NULL;
  const bool takes_part = node.rank() == 0 || node.rank() == other;
  MPI_Comm_split(node.get(), takes_part ? 0 : MPI_UNDEFINED, node.rank(), &pair);
  std::optional<double> time;
  if (takes_part) {
    const OwnComm both(OwnComm::Take{pair});
    time = PingPong(both).round_trip_us(std::chrono::milliseconds(100));
  }
  MPI_Barrier(node.get());
  return time;
}

}  // namespace

void report_node(const OwnComm& node, const lockstep::Communicator& world, std::span<const std::int64_t> sizes_bytes) {
  const bool prints = world.rank() == 0;
  if (prints)
    fmt::print("# Node report: {} ranks on {} nodes\n#\n#  rank  round trip of a cache line with rank 0\n",
               world.size(), world.nodes());
  for (const int rank : ranks_to_reach(node.size())) {
    const std::optional<double> time = round_trip_us(node, rank);
    if (prints) fmt::print("{:>7}  {}\n", rank, time ? fmt::format("{:.3f} us", *time) : "not measured");
  }
  if (!prints) return;
  fmt::print("#\n#      size  all_reduce in the arena\n");
  for (const std::int64_t bytes : sizes_bytes)
    fmt::print("{:>11}  {}\n", bytes, selected_schedule(world, bytes, lockstep::BufferKind::arena));
  fmt::print("#\n");
}

}  // namespace perf
