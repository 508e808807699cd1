// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The devices of the replicas of cases: hosts, or GPUs in a program that calls use_gpus().

#pragma once

#include <lockstep/core/device.hpp>

#include <vector>

namespace lockstep::conformance {

/// From now on all devices are GPUs; there are `most_gpus`.
void use_gpus();
[[nodiscard]] bool uses_gpus();
inline constexpr int most_gpus = 8;

/// Devices for `count` replicas of one process; each GPU has two replicas.
[[nodiscard]] std::vector<Device> devices_of_process(int count);
/// Devices for `count` replicas of a rank, whose first replica has the global id `first`; each has a GPU of its own.
[[nodiscard]] std::vector<Device> devices_of_rank(int first, int count);

}  // namespace lockstep::conformance
