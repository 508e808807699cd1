// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/device.hpp>

#include <string_view>
#include <vector>

namespace lockstep {

/// cpu:0 .. cpu:(count - 1).
[[nodiscard]] std::vector<Device> logical_cpus(int count);

/// All GPUs that this process can use: gpu:0, gpu:1, ...; cpu:0 if there is no GPU.
[[nodiscard]] std::vector<Device> gpus_or_cpu();

/// Throws Error(unavailable) unless `device` is a device of this process. The text begins with `caller` and lists the
/// devices.
void require_device_here(Device device, std::string_view caller);

/// Returns `devices`. Throws Error(invalid_argument) if the list is empty or names a device twice, and
/// Error(unavailable) if a device does not exist.
[[nodiscard]] std::vector<Device> checked_devices(std::vector<Device> devices, std::string_view strategy);

}  // namespace lockstep
