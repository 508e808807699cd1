// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/placement.hpp"

#include <algorithm>
#include <cstddef>

namespace train {

using lockstep::Device;
using lockstep::DeviceKind;

std::vector<Device> cpus_of_replicas(int replicas) {
  std::vector<Device> devices;
  for (int i = 0; i < replicas; ++i) devices.push_back({.kind = DeviceKind::cpu, .index = i});
  return devices;
}

std::vector<Device> gpus_of_replicas(int gpus, int rank_of_node, int ranks_of_node, int replicas) {
  std::vector<int> own;
  for (int gpu = rank_of_node; gpu < gpus; gpu += ranks_of_node) own.push_back(gpu);
  if (own.empty()) own.push_back(rank_of_node % gpus);
  const int count = std::min(static_cast<int>(own.size()), replicas);
  std::vector<Device> devices;
  for (int i = 0; i < replicas; ++i) {
    Device device{.kind = DeviceKind::gpu, .index = own[static_cast<std::size_t>(i * count / replicas)]};
    if (i > 0 && devices.back().index == device.index) device.logical = devices.back().logical + 1;
    devices.push_back(device);
  }
  return devices;
}

}  // namespace train
