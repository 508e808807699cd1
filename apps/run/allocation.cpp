// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "run/allocation.hpp"

#include "apps/options/option_error.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/cluster/host_topology.hpp>
#include <lockstep/cluster/slurm_cluster_resolver.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string>

namespace run {
namespace {

using ::options::refuse;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int slots_of(const std::vector<Host>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0, [](int sum, const Host& host) { return sum + host.slots; });
}

/// Tasks of the Slurm allocation.
int slurm_tasks() {
  if (const std::string tasks = variable("SLURM_NTASKS"); !tasks.empty())
    return positive_number("environment variable SLURM_NTASKS", tasks);
  const std::string list = variable("SLURM_TASKS_PER_NODE");
  if (list.empty()) return 0;
  try {
    const std::vector<int> tasks = lockstep::expand_tasks_per_node(list);
    const std::int64_t sum = std::accumulate(tasks.begin(), tasks.end(), std::int64_t{0});
    if (sum > most_ranks)
      refuse("environment variable SLURM_TASKS_PER_NODE: {} tasks are more than {}", sum, most_ranks);
    return static_cast<int>(sum);
  } catch (const lockstep::Error& error) {
    refuse("environment variable SLURM_TASKS_PER_NODE: {}", error.text());
  }
}

/// Reads pairs of a host and its number of ranks: "a 4 b 2".
std::vector<Host> lsf_hosts(const std::string& text) {
  const std::string what = "environment variable LSB_MCPU_HOSTS";
  std::vector<Host> hosts;
  std::istringstream words(text);
  for (std::string name, slots; words >> name;) {
    if (!(words >> slots)) refuse("{}: host {} has no number of ranks", what, name);
    add_host(hosts, {name, positive_number(fmt::format("{}: {}", what, name), slots)}, what);
  }
  return hosts;
}

/// The hosts of PBS or LSF; empty outside of their jobs.
std::vector<Host> batch_hosts() {
  for (const char* const name : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"}) {
    if (const std::string file = variable(name); !file.empty())
      return read_host_file(std::string("environment variable ") + name + " \"" + file + "\"", file);
  }
  return lsf_hosts(variable("LSB_MCPU_HOSTS"));
}

}  // namespace

Allocation find_allocation(const Options& options) {
  Allocation found;
  found.hosts = options.hosts;
  found.in_slurm = found.hosts.empty() && !variable("SLURM_JOB_ID").empty();
  if (found.in_slurm) {
    found.slots = slurm_tasks();
  } else {
    if (found.hosts.empty()) found.hosts = batch_hosts();
    found.slots = slots_of(found.hosts);
  }
  found.ranks = options.ranks != 0 ? options.ranks : found.slots;
  if (found.ranks == 0) {
    refuse(
        "the number of ranks is missing: give -n N, -H HOST:N,... or --hostfile FILE; without them it is that of the "
        "allocation of Slurm, PBS or LSF, and there is none here");
  }
  if (found.slots == 0) found.slots = found.in_slurm ? found.ranks : lockstep::host_topology().cores;
  return found;
}

}  // namespace run
