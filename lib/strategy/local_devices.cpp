// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "strategy/local_devices.hpp"

#include "base/check.hpp"

#include <lockstep/device/gpu.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

[[noreturn]] void throw_duplicate(Device device, std::string_view strategy) {
  const bool is_cpu = device.kind == DeviceKind::cpu;
  Device second = device;
  ++(is_cpu ? second.index : second.logical);
  detail::throw_error(Code::invalid_argument,
                      "{}: duplicate device {}; name each device once; for two replicas on {}, name {}, {}", strategy,
                      to_string(device), is_cpu ? "the CPU" : "one GPU", to_string(device), to_string(second));
}

}  // namespace

std::vector<Device> logical_cpus(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back({DeviceKind::cpu, i});
  return devices;
}

std::vector<Device> gpus_or_cpu() {
  std::vector<Device> devices;
  for (int i = 0; i < gpu_count(); ++i) devices.push_back({DeviceKind::gpu, i});
  return devices.empty() ? logical_cpus(1) : devices;
}

void require_device_here(Device device, std::string_view caller) {
  if (device.kind == DeviceKind::cpu) return;
  const int count = gpu_count();
  if (device.index >= 0 && device.index < count && device.logical >= 0) return;
  const std::string gpus = count == 0 ? "" : count == 1 ? "gpu:0, " : fmt::format("gpu:0 to gpu:{}, ", count - 1);
  detail::throw_error(Code::unavailable,
                      "{}: device {} does not exist; this process has the devices {}cpu:0, cpu:1, ... ({})", caller,
                      to_string(device), gpus, gpu_status());
}

std::vector<Device> checked_devices(std::vector<Device> devices, std::string_view strategy) {
  if (devices.empty()) {
    detail::throw_error(Code::invalid_argument,
                        "{}: the list of devices is empty; name at least one device, such as cpu:0", strategy);
  }
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    if (std::find(devices.begin(), device, *device) != device) throw_duplicate(*device, strategy);
    require_device_here(*device, strategy);
  }
  return devices;
}

}  // namespace lockstep
