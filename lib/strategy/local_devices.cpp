// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "strategy/local_devices.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace lockstep {

std::vector<Device> logical_cpus(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back({DeviceKind::cpu, i});
  return devices;
}

std::vector<Device> checked_devices(std::vector<Device> devices, std::string_view strategy) {
  if (devices.empty()) {
    detail::throw_error(Code::invalid_argument,
                        "{}: the list of devices is empty; name at least one device, such as cpu:0", strategy);
  }
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    if (std::find(devices.begin(), device, *device) != device) {
      detail::throw_error(Code::invalid_argument,
                          "{}: duplicate device {}; name each device once, logical ones as cpu:0, cpu:1", strategy,
                          to_string(*device));
    }
    if (device->kind != DeviceKind::cpu) {
      detail::throw_error(Code::unavailable, "{}: device {} is not here; this build has the devices cpu:0, cpu:1, ...",
                          strategy, to_string(*device));
    }
  }
  return devices;
}

}  // namespace lockstep
