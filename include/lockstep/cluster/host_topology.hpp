// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The processors, the memory and the devices of this host, and which processors this process may use.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A NUMA node: a part of the memory, and the processors that are near to this memory.
struct NumaNode {
  int number = 0;               ///< number that the operating system gives to the node
  std::vector<int> processors;  ///< processors of this NUMA node that this process may use
  std::uint64_t bytes = 0;      ///< size of the memory; 0 if unknown
};

/// A device of this host other than its processors.
struct LocalDevice {
  Device device;
  std::string name;    ///< name that the vendor gives to the device
  int numa_node = -1;  ///< nearest NUMA node; -1 if unknown
};

/// The topology of this host. A processor is a hardware thread: a core with two hardware threads has two processors.
struct HostTopology {
  std::vector<int> processors;       ///< processors that this process may run on, ascending
  int processors_of_host = 0;        ///< number of processors of the host
  int cores = 0;                     ///< number of cores that have at least one of `processors`
  int cores_of_host = 0;             ///< number of cores of the host
  std::vector<NumaNode> numa_nodes;  ///< NUMA nodes that have some of `processors`; at least one node
  std::vector<LocalDevice> devices;  ///< always empty at present: no backend reports devices
};

/// Reads the topology of this host, and the processors on which the calling thread may run, with hwloc; takes some
/// milliseconds. Local. Throws Error(unavailable) if hwloc fails.
[[nodiscard]] LOCKSTEP_API HostTopology host_topology();

/// The topology as text: "2 of 64 cores (processors 0-1,32), 1 NUMA node". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const HostTopology& topology);

}  // namespace lockstep
