// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The hash log of tensors on GPUs.

#include "support/batch.hpp"
#include "support/gpu_ranks.hpp"
#include "support/logged_lines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

const std::vector<TensorCase> tensors{{DType::f32, 1009}, {DType::bf16, 77}};

/// The hashes of each operation: the lines from "in" on, sorted.
std::vector<std::string> hashes_of(const std::vector<std::string>& lines) {
  std::vector<std::string> hashes;
  for (const std::string& line : lines) {
    if (const auto begin = line.find("\"in\":"); begin != std::string::npos) hashes.push_back(line.substr(begin));
  }
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

void reduce(Communicator& comm, const DeviceOf& device_of) {
  Batch batch(tensors, comm.layout(), comm.rank(), device_of);
  for (std::size_t i = 0; i < tensors.size(); ++i) batch.reduce_in_place(i);
  comm.all_reduce(batch.items(), ReduceOp::sum);
}

TEST(GpuHashes, are_those_of_the_same_tensors_in_host_memory) {
  const GpuLayout layout{{1, 2}, 2};
  const auto on_host_memory =
      hashes_of(logged_lines([&] { on_ranks(layout.replicas, [](Communicator& comm) { reduce(comm, on_host); }); }));
  const FakeGpus fakes({.devices = 4});
  CommunicatorOptions canonical;
  canonical.order = Order::canonical;
  const auto on_gpus = hashes_of(logged_lines([&] { on_gpu_ranks(fakes, layout, reduce, canonical); }));
  EXPECT_EQ(on_host_memory.size(), 2u);  // those of the two ranks
  EXPECT_EQ(on_gpus, on_host_memory);
}

}  // namespace
}  // namespace lockstep::test
