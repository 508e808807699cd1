// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Names of the devices on which replicas compute.

#pragma once

#include <lockstep/base/export.hpp>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

enum class DeviceKind : std::uint8_t { cpu, gpu };

/// A device, named by kind and index. All `cpu:i` of a process are logical devices of one host. If several replicas
/// compute on one GPU, their logical devices are `gpu:0`, `gpu:0#1`, `gpu:0#2`, ...
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  int logical = 0;  ///< index of the logical device on a GPU; 0 on a CPU
  friend auto operator<=>(const Device&, const Device&) noexcept = default;
};

/// The name of `device`: "cpu:0", "gpu:1", "gpu:1#2". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(Device device);

/// The task whose devices a process may name: the rank of the process in its job.
struct DeviceTask {
  int index = 0;              ///< number of the task in `job`
  std::string_view job = {};  ///< "worker", "chief"; empty: any job
};

/// Parses "cpu:0", "CPU:0", "/cpu:0", "/device:GPU:1", "/job:worker/replica:0/task:0/device:GPU:0", "gpu:0#1"; a
/// missing index is 0. A name with a job or a task must name `here`, the task of this process; the job "localhost" with
/// task 0 is this process in any case. Local. Throws Error(invalid_argument), whose text quotes `text`: if it is not
/// the name of a device, the text lists the accepted forms; if it names a device of another task, the text names
/// `here`; or if it names another replica than 0.
[[nodiscard]] LOCKSTEP_API Device parse_device(std::string_view text, const DeviceTask& here = {});

}  // namespace lockstep
