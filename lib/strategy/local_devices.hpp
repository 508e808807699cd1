// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/device.hpp>

#include <string_view>
#include <vector>

namespace lockstep {

/// cpu:0 .. cpu:(count - 1).
[[nodiscard]] std::vector<Device> logical_cpus(int count);

/// gpu:0, gpu:1, ...: all that this process can use; cpu:0 where there is none.
[[nodiscard]] std::vector<Device> gpus_or_cpu();

/// Throws Error(unavailable), which begins with `who` and says what is here, unless `device` is.
void require_device_here(Device device, std::string_view who);

/// `devices` itself, if it names at least one, none twice (Error(invalid_argument)), and all are here
/// (Error(unavailable)).
[[nodiscard]] std::vector<Device> checked_devices(std::vector<Device> devices, std::string_view strategy);

}  // namespace lockstep
