// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep::detail {
namespace {

/// `set`, extended to all processors of every core that it contains a part of: hardware threads of one core compete.
ProcessorSet whole_cores(const Topology& topology, const ProcessorSet& set) {
  ProcessorSet result = set;
  for (const ProcessorSet& core : topology.cores()) {
    if ((core & set).any()) result |= core;
  }
  return result;
}

}  // namespace

Placement place(const Topology& topology, std::span<const ProcessorSet> sets, std::size_t own) {
  std::vector<ProcessorSet> cores;
  ProcessorSet of_node;
  for (const ProcessorSet& set : sets) {
    cores.push_back(whole_cores(topology, set.any() ? set : topology.processors()));
    of_node |= cores.back();
  }
  Placement placement;
  std::vector<bool> is_in(sets.size(), false);
  is_in[own] = true;
  ProcessorSet group = cores[own];
  // each iteration but the last adds a rank, so the loop ends
  for (bool grew = true; grew;) {
    grew = false;
    for (std::size_t i = 0; i < cores.size(); ++i) {
      if (is_in[i] || (cores[i] & group).none()) continue;
      is_in[i] = grew = true;
      group |= cores[i];
    }
  }
  placement.ranks = static_cast<int>(std::ranges::count(is_in, true));
  placement.cores = std::max(1, cores_of(topology, group));
  placement.threads = std::max(1, placement.cores / placement.ranks);
  const ProcessorSet& everything = sets.size() == 1 ? topology.processors() : of_node;
  placement.is_bound = cores[own] != (everything & topology.processors());
  return placement;
}

std::string to_string(const Placement& placement) {
  if (placement.shares_cores()) {
    return fmt::format(
        "{} ranks share {} core{} and slow each other down; start fewer ranks on this node{}", placement.ranks,
        placement.cores, placement.cores == 1 ? "" : "s",
        placement.is_bound ? ", or bind them to different cores (mpirun --bind-to core, srun --cpu-bind=cores)" : "");
  }
  const char* const plural = placement.threads == 1 ? "" : "s";
  if (placement.is_bound) {
    return fmt::format("this rank was bound by its launcher; it has cores for {} thread{}", placement.threads, plural);
  }
  if (placement.ranks == 1)
    return fmt::format("not bound, the only rank of the node; it has cores for {} thread{}", placement.threads, plural);
  return fmt::format(
      "not bound: {} ranks move among {} cores, which are enough for {} thread{} each (to bind: mpirun --bind-to core, "
      "srun --cpu-bind=cores)",
      placement.ranks, placement.cores, placement.threads, plural);
}

}  // namespace lockstep::detail
