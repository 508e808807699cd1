// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/device.hpp>

#include <string_view>
#include <vector>

namespace lockstep {

/// cpu:0 .. cpu:(count - 1).
[[nodiscard]] std::vector<Device> logical_cpus(int count);

/// gpu:0, gpu:1, ...: all that this process can use; cpu:0 if there is none.
[[nodiscard]] std::vector<Device> gpus_or_cpu();

/// Throws Error(unavailable), which begins with `caller` and lists the devices of this process, unless `device` is one.
void require_device_here(Device device, std::string_view caller);

/// Returns `devices`. Throws Error(invalid_argument) if it is empty or names a device twice, Error(unavailable) for a
/// device that does not exist.
[[nodiscard]] std::vector<Device> checked_devices(std::vector<Device> devices, std::string_view strategy);

}  // namespace lockstep
