// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Buffers on GPUs: where they are, and what the memory of one GPU allows.

#pragma once

#include "case.hpp"

#include <lockstep/core/device.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perf {

/// The GPUs that buffers are on; nothing where they are in host memory.
struct Gpus {
  std::string status;                ///< what lockstep says of them
  std::vector<std::string> devices;  ///< of this rank's replicas: "gpu:0", "gpu:0#1"
  std::optional<double> copy_gbs;    ///< where all replicas of the job are on one: see copy_gbs()
};
/// Local. Measures for some milliseconds.
[[nodiscard]] Gpus describe_gpus(const Job& job);

/// What a copy of 256 MiB from one place of the memory of `gpu` to another reads and writes: 10^9 bytes per second.
[[nodiscard]] double copy_gbs(lockstep::Device gpu);

/// What a call reads and writes at least where all replicas are on one GPU: each input once, each output once. 0 where
/// a single replica has its result already. Local.
[[nodiscard]] std::int64_t least_bytes(const Case& what, const Job& job);

}  // namespace perf
