// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the replicas of cases compute: on hosts, or, in a program that says so, on GPUs.

#pragma once

#include <lockstep/core/device.hpp>

#include <vector>

namespace lockstep::conformance {

/// From now on all are GPUs, of which there are `most_gpus`.
void use_gpus();
[[nodiscard]] bool uses_gpus();
inline constexpr int most_gpus = 8;

/// For `count` replicas of one process; of GPUs each has two.
[[nodiscard]] std::vector<Device> devices_of_process(int count);
/// For `count` replicas of a rank, the first of which is replica `first` of all; each has a GPU of its own.
[[nodiscard]] std::vector<Device> devices_of_rank(int first, int count);

}  // namespace lockstep::conformance
