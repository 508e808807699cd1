// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/device.hpp>

#include <string_view>
#include <vector>

namespace lockstep {

/// cpu:0 .. cpu:(count - 1).
[[nodiscard]] std::vector<Device> logical_cpus(int count);

/// `devices` itself, if it names at least one, none twice (Error(invalid_argument)), and all are here
/// (Error(unavailable)).
[[nodiscard]] std::vector<Device> checked_devices(std::vector<Device> devices, std::string_view strategy);

}  // namespace lockstep
