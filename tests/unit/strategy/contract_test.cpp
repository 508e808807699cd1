// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The placements for which the contract of strategies holds. Its tests are in the files that include contract.hpp.

#include "unit/strategy/contract.hpp"

#include "support/quick.hpp"

namespace lockstep::test {
namespace {

Device cpu(int index) { return {DeviceKind::cpu, index}; }

/// Ranks with GPUs of their own, one for each replica.
std::vector<Placement> own_gpus() {
  std::vector<Placement> placements;
  for (const GpuLayout& layout : gpu_matrix()) {
    Placement& ranks = placements.emplace_back();
    for (int rank = 0; rank < static_cast<int>(layout.replicas.size()); ++rank) {
      ranks.emplace_back();
      for (int k = 0; k < layout.gpus; ++k) ranks.back().push_back(gpus_of_rank(rank, layout.gpus)(k));
    }
  }
  return placements;
}

std::vector<Placement> hosts() {
  return {{{cpu(0), cpu(1), cpu(2)}}, {{cpu(0), cpu(1)}, {cpu(0)}}, {{cpu(0)}, {cpu(0)}, {cpu(0)}}};
}

/// Several replicas of one rank or of two on one GPU, also with replicas on hosts among them.
std::vector<Placement> shared_and_mixed() {
  return {
      {{gpu(0), gpu(0, 1)}}, {{gpu(0), gpu(1), gpu(1, 1)}}, {{gpu(1), cpu(0), gpu(0)}}, {{gpu(0), gpu(0, 1)}, {gpu(1)}},
      {{gpu(0)}, {gpu(0)}},  {{gpu(0), gpu(1)}, {gpu(1)}},  {{gpu(0)}, {cpu(0)}},       {{gpu(1), cpu(0)}, {gpu(0)}}};
}

std::string name_of(const testing::TestParamInfo<Placement>& instance) {
  std::string name;
  for (const auto& devices : instance.param) {
    for (const Device device : devices) {
      name += (device.kind == DeviceKind::gpu ? "gpu" : "cpu") + std::to_string(device.index);
      if (device.logical != 0) name += "L" + std::to_string(device.logical);
    }
    name += '_';
  }
  return name + "are_their_devices";
}

INSTANTIATE_TEST_SUITE_P(OwnGpus, StrategyContract, testing::ValuesIn(some_of(own_gpus())), name_of);
INSTANTIATE_TEST_SUITE_P(Hosts, StrategyContract, testing::ValuesIn(some_of(hosts())), name_of);
INSTANTIATE_TEST_SUITE_P(SharedAndMixed, StrategyContract, testing::ValuesIn(some_of(shared_and_mixed())), name_of);

}  // namespace
}  // namespace lockstep::test
