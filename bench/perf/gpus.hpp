// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Buffers on GPUs: their devices, and the limit of the memory of one GPU.

#pragma once

#include "bench/perf/case.hpp"

#include <lockstep/core/device.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perf {

/// The GPUs of the buffers; empty if the buffers are in host memory.
struct Gpus {
  std::string status;                ///< text of lockstep::gpu_status()
  std::vector<std::string> devices;  ///< devices of this rank's replicas: "gpu:0", "gpu:0#1"
  std::optional<double> copy_gbs;    ///< set if all replicas of the job are on one GPU; see copy_gbs()
};
/// Local. The measurement takes some milliseconds.
[[nodiscard]] Gpus describe_gpus(const Job& job);

/// Rate of a copy of 256 MiB inside the memory of `gpu`: bytes read and written, in 10^9 bytes per second.
[[nodiscard]] double copy_gbs(lockstep::Device gpu);

/// The least number of bytes that a call reads and writes if all replicas are on one GPU: each input once, each output
/// once. 0 if a single replica has its result already. Local.
[[nodiscard]] std::int64_t least_bytes(const Case& what, const Job& job);

}  // namespace perf
