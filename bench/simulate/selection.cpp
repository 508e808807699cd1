// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/simulate/selection.hpp"

#include "apps/options/counted.hpp"
#include "bench/harness/option_values.hpp"

#include <lockstep/cluster/build_info.hpp>
#include <lockstep/collectives/schedule_model.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace perf {

std::string transport_line(const lockstep::Communicator& job) {
  const std::string_view reason = job.transport_reason();
  return fmt::format("# transport   {} between nodes{}{}", job.transport(), reason.empty() ? "" : ": ", reason);
}

void show_selection(const lockstep::Communicator& job, const std::optional<Simulation>& simulation,
                    std::span<const std::int64_t> sizes_bytes) {
  if (simulation && !simulation->radices.empty()) {
    refuse(
        "--show-selection: --simulate gives radices \"{}\", so there is nothing to choose; give LOCKSTEP_RADICES to "
        "see "
        "what it does",
        simulation->radices);
  }
  const int ranks = simulation ? simulation->cluster.ranks : job.size();
  const int nodes = simulation ? simulation->cluster.nodes : job.nodes();
  const char* const radices = std::getenv("LOCKSTEP_RADICES");
  fmt::print(
      "# lockstep-perf {}: SELECTION for all_reduce, canonical order, one f32 tensor; nothing is measured\n"
      "# job         {} on {}{}\n"
      "{}"
      "# radices     {}; K: split among K, n: the ranks of a node, rK: replicate among K\n#\n",
      lockstep::build_info().version, options::counted(ranks, "rank"), options::counted(nodes, "node"),
      simulation ? ", SIMULATED" : "", simulation ? std::string() : transport_line(job) + "\n",
      radices != nullptr ? std::string("LOCKSTEP_RADICES=") + radices : "the planner's");
  fmt::print("#{:>10} {:>7} {:>6}  {:6}  {}\n", "size", "ranks", "nodes", "memory", "schedule");
  for (const std::int64_t bytes : sizes_bytes) {
    for (const auto kind : {lockstep::BufferKind::arena, lockstep::BufferKind::other}) {
      const std::string schedule = simulation ? lockstep::selected_schedule(simulation->cluster, bytes, kind)
                                              : lockstep::selected_schedule(job, bytes, kind);
      fmt::print(" {:>10} {:>7} {:>6}  {:6}  {}\n", bytes, ranks, nodes,
                 kind == lockstep::BufferKind::arena ? "arena" : "malloc", schedule);
    }
  }
}

}  // namespace perf
