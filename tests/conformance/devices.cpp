// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "conformance/devices.hpp"

#include "support/logical_cpus.hpp"

namespace lockstep::conformance {
namespace {

bool on_gpus = false;  // set before the tests run

}  // namespace

void use_gpus() { on_gpus = true; }
bool uses_gpus() { return on_gpus; }

std::vector<Device> devices_of_process(int count) {
  if (!on_gpus) return test::logical_cpus(count);
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back({DeviceKind::gpu, i / 2 % most_gpus, i % 2});
  return devices;
}

std::vector<Device> devices_of_rank(int first, int count) {
  if (!on_gpus) return test::logical_cpus(count);
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back({DeviceKind::gpu, (first + i) % most_gpus});
  return devices;
}

}  // namespace lockstep::conformance
