// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads, with replicas on the same fake GPUs.

#pragma once

#include "support/function_ref.hpp"
#include "support/gpu_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <vector>

namespace lockstep::test {

/// The GPU of each replica, by rank; GPUs are numbered from 0 over all ranks.
using SharedGpus = std::vector<std::vector<int>>;

[[nodiscard]] inline int count_gpus(const SharedGpus& ranks) {
  int last = 0;
  for (const auto& replicas : ranks) last = std::max(last, *std::max_element(replicas.begin(), replicas.end()));
  return last + 1;
}

/// The fake CUDA of all these ranks: each rank has its own numbers for all GPUs, so that a rank cannot access the
/// memory of another.
[[nodiscard]] inline FakeCudaOptions cuda_of(const SharedGpus& ranks) {
  const int gpus = count_gpus(ranks);
  FakeCudaOptions options{.devices = gpus * static_cast<int>(ranks.size())};
  for (int device = 0; device < options.devices; ++device)
    options.uuids.push_back({static_cast<std::uint8_t>(device % gpus + 1)});
  return options;
}

/// The devices of the replicas of `rank`. Replicas on one GPU have different streams.
[[nodiscard]] inline DeviceOf devices_of(const SharedGpus& ranks, int rank) {
  return [first = rank * count_gpus(ranks), gpus = ranks[static_cast<std::size_t>(rank)]](int replica) {
    const auto mine = gpus.begin() + replica;
    return Device{DeviceKind::gpu, first + *mine, static_cast<int>(std::count(gpus.begin(), mine, *mine))};
  };
}

/// As on_gpu_ranks.
inline void on_sharing_ranks(const FakeGpus& fakes, const SharedGpus& ranks,
                             FunctionRef<void(Communicator&, const DeviceOf&)> body,
                             const CommunicatorOptions& options = {}) {
  std::vector<int> replicas;
  for (const auto& gpus : ranks) replicas.push_back(static_cast<int>(gpus.size()));
  on_ranks(replicas, [&](Communicator& comm) { body(comm, devices_of(ranks, comm.rank())); }, options);
  EXPECT_EQ(fakes.nccl().mismatches(), std::vector<std::string>{});
  EXPECT_EQ(fakes.nccl().communicators(), 0U);
  EXPECT_TRUE(fakes.cuda().wait_for_all());
  for (int gpu = 0; gpu < count_gpus(ranks) * static_cast<int>(ranks.size()); ++gpu)
    EXPECT_EQ(fakes.cuda().used_bytes(gpu), 0U) << "gpu:" << gpu;
}

}  // namespace lockstep::test
