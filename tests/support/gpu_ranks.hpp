// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads whose replicas are on GPUs that are not there.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "support/fake_gpus.hpp"
#include "support/placed_bytes.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <ostream>
#include <vector>

namespace lockstep::test {

/// How replicas are dealt: each rank has `gpus` GPUs of its own, and its replicas on them in turn.
struct GpuLayout {
  std::vector<int> replicas = {1};  ///< of each rank
  int gpus = 1;                     ///< of each rank

  [[nodiscard]] int all_gpus() const { return static_cast<int>(replicas.size()) * gpus; }
};
inline void PrintTo(const GpuLayout& layout, std::ostream* stream) {
  *stream << to_string(ReplicaLayout(layout.replicas)) << " replicas on " << layout.gpus << " GPUs each";
}

/// 1 to 4 ranks that have 1 to 3 GPUs each, and a replica on each of them. `some_of` these has every number of either.
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

/// `body(communicator, device_of)` on every rank; afterwards nothing is left on the GPUs, and NCCL's ranks agreed in
/// all they did.
inline void on_gpu_ranks(const FakeGpus& fakes, const GpuLayout& layout,
                         const std::function<void(Communicator&, const DeviceOf&)>& body,
                         const CommunicatorOptions& options = {}) {
  on_ranks(layout.replicas, [&](Communicator& comm) { body(comm, gpus_of_rank(comm.rank(), layout.gpus)); }, options);
  EXPECT_EQ(fakes.nccl().mismatches(), std::vector<std::string>{});
  EXPECT_EQ(fakes.nccl().communicators(), 0U);
  EXPECT_TRUE(fakes.cuda().wait_for_all());
  for (int gpu = 0; gpu < layout.all_gpus(); ++gpu) EXPECT_EQ(fakes.cuda().used_bytes(gpu), 0U) << "gpu:" << gpu;
}

/// In canonical order unless a call asks for another.
[[nodiscard]] inline CommunicatorOptions canonical() {
  CommunicatorOptions options;
  options.order = Order::canonical;
  return options;
}

}  // namespace lockstep::test
