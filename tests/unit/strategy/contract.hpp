// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of strategies on any devices: TEST_P(StrategyContract, ...) runs on all placements that
// contract_test.cpp lists.

#pragma once

#include "support/function_ref.hpp"
#include "support/gpu_ranks.hpp"
#include "unit/strategy/gpu_strategies.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::test {

/// The devices of each rank's replicas.
using Placement = std::vector<std::vector<Device>>;

class StrategyContract : public testing::TestWithParam<Placement> {
 protected:
  /// Runs `body(strategy)` on every rank; each rank sees the GPUs of all ranks, and at least gpu:0 and gpu:1. Then
  /// checks that all ranks of NCCL made the same calls, and that no memory is still allocated on the GPUs.
  static void on_every_rank(FunctionRef<void(Strategy&)> body) {
    const FakeGpus gpus({.devices = gpus_of(GetParam())});
    if (GetParam().size() == 1) {
      MirroredStrategy strategy(names_of(GetParam().front()));
      body(strategy);
    } else {
      on_ranks(std::vector<int>(GetParam().size(), 1), [&](Communicator& communicator) {
        MultiWorkerOptions options;
        options.devices = GetParam()[static_cast<std::size_t>(communicator.rank())];
        MultiWorkerMirroredStrategy strategy(communicator, options);
        body(strategy);
      });
    }
    EXPECT_EQ(gpus.nccl().mismatches(), std::vector<std::string>{});
    EXPECT_TRUE(gpus.cuda().wait_for_all());
    for (int device = 0; device < gpus_of(GetParam()); ++device)
      EXPECT_EQ(gpus.cuda().used_bytes(device), 0U) << "gpu:" << device;
  }

 private:
  static int gpus_of(const Placement& ranks) {
    int last = 1;
    for (const auto& devices : ranks) {
      for (const Device device : devices) last = std::max(last, device.index);
    }
    return last + 1;
  }
  static std::vector<std::string> names_of(const std::vector<Device>& devices) {
    std::vector<std::string> names;
    for (const Device device : devices) names.push_back(to_string(device));
    return names;
  }
};

}  // namespace lockstep::test
