// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A host as hwloc reads it: this one, or a made one in tests.

#pragma once

#include <lockstep/cluster/host_topology.hpp>

#include <hwloc.h>

#include <bitset>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::detail {

inline constexpr std::size_t most_processors = 8192;
using ProcessorSet = std::bitset<most_processors>;

/// Those that the calling thread may run on; none where the system does not say.
[[nodiscard]] ProcessorSet allowed_processors() noexcept;

[[nodiscard]] std::vector<int> numbers_of(const ProcessorSet& set);
[[nodiscard]] ProcessorSet set_of(const std::vector<int>& numbers);

/// "0-3,8"; "none".
[[nodiscard]] std::string to_string(const ProcessorSet& set);

/// A loaded hwloc topology. Move-only.
class Topology {
 public:
  /// This host. Throws Error(unavailable).
  Topology() : Topology(std::string()) {}
  /// `synthetic` in hwloc's syntax, such as "node:2 core:4 pu:2"; this host where it is empty.
  explicit Topology(const std::string& synthetic);

  [[nodiscard]] hwloc_topology_t get() const noexcept { return handle_.get(); }
  /// All processors of each core.
  [[nodiscard]] const std::vector<ProcessorSet>& cores() const noexcept { return cores_; }
  /// All processors.
  [[nodiscard]] const ProcessorSet& processors() const noexcept { return processors_; }

 private:
  struct Destroy {
    void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
  };
  std::unique_ptr<hwloc_topology, Destroy> handle_;
  std::vector<ProcessorSet> cores_;
  ProcessorSet processors_;
};

/// What finds the devices of one kind. A build with a back end for GPUs has an entry for it in `device_backends`; there
/// is none today, and tests give their own.
struct DeviceBackend {
  const char* name;
  std::vector<LocalDevice> (*find)(const Topology& topology);
};
[[nodiscard]] std::span<const DeviceBackend> device_backends() noexcept;

/// `topology` for a process that may run on `allowed`, with the devices of `backends`.
[[nodiscard]] HostTopology host_topology_of(const Topology& topology, const ProcessorSet& allowed,
                                            std::span<const DeviceBackend> backends);

/// How many cores of `topology` own a processor of `set`.
[[nodiscard]] int cores_of(const Topology& topology, const ProcessorSet& set);

}  // namespace lockstep::detail
