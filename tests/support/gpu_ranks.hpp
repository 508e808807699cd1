// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads, with replicas on fake GPUs.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "support/fake_gpus.hpp"
#include "support/function_ref.hpp"
#include "support/placed_bytes.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <vector>

namespace lockstep::test {

/// A layout: each rank has `gpus` GPUs of its own, to which its replicas are assigned in turn.
struct GpuLayout {
  std::vector<int> replicas = {1};  ///< of each rank
  int gpus = 1;                     ///< of each rank

  [[nodiscard]] int all_gpus() const { return static_cast<int>(replicas.size()) * gpus; }
};
inline void PrintTo(const GpuLayout& layout, std::ostream* stream) {
  *stream << to_string(ReplicaLayout(layout.replicas)) << " replicas on " << layout.gpus << " GPUs each";
}

/// 1 to 4 ranks with 1 to 3 GPUs each and one replica per GPU. `some_of` these contains every number of ranks and GPUs.
[[nodiscard]] inline std::vector<GpuLayout> gpu_matrix() {
  std::vector<GpuLayout> layouts;
  for (int gpus = 1; gpus <= 3; ++gpus) {
    for (std::size_t ranks = 1; ranks <= 4; ++ranks) layouts.push_back({std::vector<int>(ranks, gpus), gpus});
  }
  return layouts;
}

/// The devices of rank `rank`.
[[nodiscard]] inline DeviceOf gpus_of_rank(int rank, int gpus) {
  return [first = rank * gpus, gpus](int replica) {
    return Device{DeviceKind::gpu, first + replica % gpus, replica / gpus};
  };
}

/// Runs `body(communicator, device_of)` on every rank. Expects that afterwards no memory is left on the GPUs, and that
/// all ranks made the same calls of NCCL.
inline void on_gpu_ranks(const FakeGpus& fakes, const GpuLayout& layout,
                         FunctionRef<void(Communicator&, const DeviceOf&)> body,
                         const CommunicatorOptions& options = {}) {
  on_ranks(layout.replicas, [&](Communicator& comm) { body(comm, gpus_of_rank(comm.rank(), layout.gpus)); }, options);
  EXPECT_EQ(fakes.nccl().mismatches(), std::vector<std::string>{});
  EXPECT_EQ(fakes.nccl().communicators(), 0U);
  EXPECT_TRUE(fakes.cuda().wait_for_all());
  for (int gpu = 0; gpu < layout.all_gpus(); ++gpu) EXPECT_EQ(fakes.cuda().used_bytes(gpu), 0U) << "gpu:" << gpu;
}

/// The same in canonical order, unless a call asks for another.
[[nodiscard]] inline CommunicatorOptions canonical() {
  CommunicatorOptions options;
  options.order = Order::canonical;
  return options;
}

}  // namespace lockstep::test
