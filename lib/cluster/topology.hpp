// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The processors and cores of this host, read with hwloc, and how the ranks of a node share the cores. Tests use
// synthetic hosts.

#pragma once

#include <lockstep/cluster/host_topology.hpp>

#include "schedule/levels.hpp"

#include <hwloc.h>

#include <bitset>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Processors, by the numbers that the operating system gives them. The size is fixed, so that ranks can exchange sets.
inline constexpr std::size_t most_processors = 8192;
using ProcessorSet = std::bitset<most_processors>;

/// The processors that the calling thread may run on; empty if the system call fails.
[[nodiscard]] ProcessorSet allowed_processors() noexcept;

/// The numbers of the processors in a set, ascending.
[[nodiscard]] std::vector<int> numbers_of(const ProcessorSet& set);
[[nodiscard]] ProcessorSet set_of(const std::vector<int>& numbers);

/// Text such as "0-3,8", or "none".
[[nodiscard]] std::string to_string(const ProcessorSet& set);

/// A loaded hwloc topology. Move-only.
class Topology {
 public:
  /// Reads this host. Throws Error(unavailable) if hwloc fails.
  Topology() : Topology(std::string()) {}
  /// Makes a synthetic host in hwloc's syntax, such as "node:2 core:4 pu:2". Reads this host if `synthetic` is empty.
  explicit Topology(const std::string& synthetic);

  [[nodiscard]] hwloc_topology_t get() const noexcept { return handle_.get(); }
  /// The processors of each core.
  [[nodiscard]] const std::vector<ProcessorSet>& cores() const noexcept { return cores_; }
  /// All processors of the host.
  [[nodiscard]] const ProcessorSet& processors() const noexcept { return processors_; }

 private:
  struct Destroy {
    void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
  };
  std::unique_ptr<hwloc_topology, Destroy> handle_;
  std::vector<ProcessorSet> cores_;
  ProcessorSet processors_;
};

/// The socket and the last-level cache of the processors in `set`. Processors of several caches, or of several sockets,
/// have numbers below 0.
[[nodiscard]] NodePlace place_of(const Topology& topology, const ProcessorSet& set);

/// Finds the devices of one kind. `device_backends` returns the backends of this build; the list is empty at present.
/// Tests pass their own list.
struct DeviceBackend {
  const char* name;
  std::vector<LocalDevice> (*find)(const Topology& topology);
};
[[nodiscard]] std::span<const DeviceBackend> device_backends() noexcept;

/// The public description of `topology` for a process that may run on `allowed`, with the devices that `backends` find.
[[nodiscard]] HostTopology host_topology_of(const Topology& topology, const ProcessorSet& allowed,
                                            std::span<const DeviceBackend> backends);

/// Number of cores of `topology` that have a processor in `set`.
[[nodiscard]] int cores_of(const Topology& topology, const ProcessorSet& set);

/// The cores of one rank, and the ranks that share them. The group of a rank has all ranks that may run on one of its
/// cores, and all ranks that may run on a core of another rank of the group.
struct Placement {
  int ranks = 1;          ///< ranks in the group
  int cores = 1;          ///< cores that the group may use
  int threads = 1;        ///< threads that this rank may use without taking a core from another rank
  bool is_bound = false;  ///< whether this rank may use fewer processors than all ranks of the node together
  [[nodiscard]] bool shares_cores() const noexcept { return ranks > cores; }
};

/// `sets[i]` has the processors that the i-th rank of the node may use; `own` is the index of this rank.
[[nodiscard]] Placement place(const Topology& topology, std::span<const ProcessorSet> sets, std::size_t own);

/// One line of text for Environment::describe().
[[nodiscard]] std::string to_string(const Placement& placement);

}  // namespace lockstep::detail
