// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/device.hpp>

#include <vector>

namespace lockstep::test {

/// cpu:0, cpu:1, ...: devices of replicas on the host.
inline std::vector<Device> logical_cpus(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back({DeviceKind::cpu, i});
  return devices;
}

}  // namespace lockstep::test
