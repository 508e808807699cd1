// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What this host has, and what of it this process may use.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Memory that is equally near to some processors.
struct NumaNode {
  int number = 0;               ///< as the operating system counts
  std::vector<int> processors;  ///< near to it, of those that this process may use
  std::uint64_t bytes = 0;      ///< 0 where the system does not say
};

/// A device of this host beside its processors.
struct LocalDevice {
  Device device;
  std::string name;    ///< in its vendor's words
  int numa_node = -1;  ///< the nearest; -1 where that is not known
};

/// A processor is what the operating system schedules on, so a core with two hardware threads is two of them.
struct HostTopology {
  std::vector<int> processors;  ///< that this process may run on, as the operating system counts, ascending
  int processors_of_host = 0;   ///< all of them
  int cores = 0;                ///< that own at least one of `processors`
  int cores_of_host = 0;
  std::vector<NumaNode> numa_nodes;  ///< that are near to one of `processors`; at least one
  std::vector<LocalDevice> devices;  ///< of all back ends of this build; none today
};

/// Looks at this host and at the calling thread's allowed processors, with hwloc; some milliseconds. Local.
/// Throws Error(unavailable) where hwloc cannot read the host.
[[nodiscard]] LOCKSTEP_API HostTopology host_topology();

/// "2 of 64 cores (processors 0-1,32), 1 NUMA node". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const HostTopology& topology);

}  // namespace lockstep
