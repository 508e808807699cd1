// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "cluster/topology.hpp"

#include "cluster/place.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

namespace lockstep {
namespace detail {
namespace {

ProcessorSet set_of(hwloc_const_cpuset_t cpus) {
  ProcessorSet set;
  if (cpus == nullptr) return set;
  for (int cpu = hwloc_bitmap_first(cpus); cpu >= 0; cpu = hwloc_bitmap_next(cpus, cpu)) {
    if (static_cast<std::size_t>(cpu) >= most_processors) break;  // hwloc's sets may be infinite
    set.set(static_cast<std::size_t>(cpu));
  }
  return set;
}

void check(int result, const char* call) {
  if (result == 0) return;
  throw_error(Code::unavailable, "host_topology: hwloc failed to read this host: {}: {}", call, std::strerror(errno));
}

hwloc_topology_t initialized() {
  hwloc_topology_t handle = nullptr;
  check(hwloc_topology_init(&handle), "hwloc_topology_init");
  return handle;
}

// empty, because device/cuda finds the GPUs
constexpr std::array<DeviceBackend, 0> backends{};

/// `set` with all processors of every core that has a processor in `set`, because hardware threads of one core compete.
ProcessorSet whole_cores(const Topology& topology, const ProcessorSet& set) {
  ProcessorSet result = set;
  for (const ProcessorSet& core : topology.cores()) {
    if ((core & set).any()) result |= core;
  }
  return result;
}

}  // namespace

ProcessorSet allowed_processors() noexcept {
  ProcessorSet result;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most_processors),
                                                             [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(most_processors);
  if (set == nullptr || sched_getaffinity(0, bytes, set.get()) != 0) return result;
  for (std::size_t cpu = 0; cpu < most_processors; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, set.get())) result.set(cpu);
  }
  return result;
}

std::vector<int> numbers_of(const ProcessorSet& set) {
  std::vector<int> numbers;
  for (std::size_t cpu = 0; cpu < most_processors; ++cpu) {
    if (set.test(cpu)) numbers.push_back(static_cast<int>(cpu));
  }
  return numbers;
}

ProcessorSet set_of(const std::vector<int>& numbers) {
  ProcessorSet set;
  for (const int number : numbers) {
    if (number >= 0 && static_cast<std::size_t>(number) < most_processors) set.set(static_cast<std::size_t>(number));
  }
  return set;
}

std::string to_string(const ProcessorSet& set) {
  std::string text;
  const std::vector<int> numbers = numbers_of(set);
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += text.empty() ? "" : ",";
    text +=
        end - begin == 1 ? fmt::format("{}", numbers[begin]) : fmt::format("{}-{}", numbers[begin], numbers[end - 1]);
    begin = end;
  }
  return text.empty() ? "none" : text;
}

Topology::Topology(const std::string& synthetic) : handle_(initialized()) {
  if (!synthetic.empty()) check(hwloc_topology_set_synthetic(get(), synthetic.c_str()), "hwloc_topology_set_synthetic");
  // also counts the cores that this process may not use
  check(hwloc_topology_set_flags(get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED), "hwloc_topology_set_flags");
  check(hwloc_topology_load(get()), "hwloc_topology_load");
  processors_ = set_of(hwloc_topology_get_topology_cpuset(get()));
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(get(), HWLOC_OBJ_CORE, core)) != nullptr)
    cores_.push_back(set_of(core->cpuset));
  if (!cores_.empty()) return;
  // some virtual machines report no cores: each processor counts as one core
  for (const int cpu : numbers_of(processors_)) cores_.push_back(set_of(std::vector<int>{cpu}));
}

NodePlace place_of(const Topology& topology, const ProcessorSet& set) {
  constexpr NodePlace unknown{-1, -1};
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> processors(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  for (const int number : numbers_of(set)) hwloc_bitmap_set(processors.get(), static_cast<unsigned>(number));
  const hwloc_obj_t object = hwloc_get_obj_covering_cpuset(topology.get(), processors.get());
  if (object == nullptr) return unknown;
  const auto index_of = [&](hwloc_obj_type_t type) {
    const hwloc_obj_t found =
        object->type == type ? object : hwloc_get_ancestor_obj_by_type(topology.get(), type, object);
    return found == nullptr ? -1 : static_cast<std::int32_t>(found->logical_index);
  };
  const std::int32_t socket = index_of(HWLOC_OBJ_PACKAGE);
  const std::int32_t domain = index_of(HWLOC_OBJ_L3CACHE);
  if (domain >= 0) return {socket, domain};
  if (socket < 0) return unknown;
  const bool has_caches = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_L3CACHE) > 0;
  return {socket, has_caches ? -2 - socket : socket};
}

NodePlace place_of_this_process() {
  static const NodePlace place = [] {
    try {
      return place_of(Topology(), allowed_processors());
    } catch (const Error&) {  // the other ranks may wait for this one
      return NodePlace{-1, -1};
    }
  }();
  return place;
}

std::span<const DeviceBackend> device_backends() noexcept { return backends; }

int cores_of(const Topology& topology, const ProcessorSet& set) {
  return static_cast<int>(
      std::ranges::count_if(topology.cores(), [&](const ProcessorSet& core) { return (core & set).any(); }));
}

HostTopology host_topology_of(const Topology& topology, const ProcessorSet& allowed,
                              std::span<const DeviceBackend> some) {
  HostTopology host;
  const ProcessorSet mine = allowed.any() ? allowed & topology.processors() : topology.processors();
  host.processors = numbers_of(mine);
  host.processors_of_host = static_cast<int>(topology.processors().count());
  host.cores = cores_of(topology, mine);
  host.cores_of_host = static_cast<int>(topology.cores().size());
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    const ProcessorSet near = set_of(node->cpuset) & mine;
    if (near.none()) continue;
    host.numa_nodes.push_back({static_cast<int>(node->os_index), numbers_of(near), node->attr->numanode.local_memory});
  }
  if (host.numa_nodes.empty()) host.numa_nodes.push_back({0, host.processors, 0});
  for (const DeviceBackend& backend : some) {
    std::vector<LocalDevice> found = backend.find(topology);
    std::ranges::move(found, std::back_inserter(host.devices));
  }
  return host;
}

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

}  // namespace detail

HostTopology host_topology() {
  return detail::host_topology_of(detail::Topology(), detail::allowed_processors(), detail::device_backends());
}

std::string to_string(const HostTopology& topology) {
  const std::size_t nodes = topology.numa_nodes.size();
  std::string text =
      fmt::format("{} of {} cores (processors {}), {} NUMA node{}", topology.cores, topology.cores_of_host,
                  detail::to_string(detail::set_of(topology.processors)), nodes, nodes == 1 ? "" : "s");
  for (const LocalDevice& device : topology.devices)
    text += fmt::format(", {} {}", to_string(device.device), device.name);
  return text;
}

}  // namespace lockstep
