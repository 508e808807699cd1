// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Several ranks with GPUs. The ranks are threads of one process, so all see the same GPUs.

#include "unit/strategy/gpu_strategies.hpp"

#include "support/function_ref.hpp"

#include <mutex>

namespace lockstep::test {
namespace {

/// Runs `body(strategy)` on `ranks` ranks with `devices`, or with their shares of the GPUs.
void on_gpu_workers(int ranks, const std::vector<std::vector<Device>>& devices, FunctionRef<void(Strategy&)> body) {
  on_ranks(std::vector<int>(static_cast<std::size_t>(ranks), 1), [&](Communicator& communicator) {
    MultiWorkerOptions options;
    options.default_devices = DefaultDevices::gpus;
    if (!devices.empty()) options.devices = devices[static_cast<std::size_t>(communicator.rank())];
    MultiWorkerMirroredStrategy strategy(communicator, options);
    body(strategy);
  });
}

TEST_F(OnGpus, are_not_used_by_ranks_unless_requested) {
  on_workers({1, 2}, [](Strategy& strategy) {
    for (const Device device : strategy.extended().worker_devices()) EXPECT_EQ(device.kind, DeviceKind::cpu);
  });
}

TEST_F(OnGpus, are_shared_by_ranks) {
  on_gpu_workers(2, {}, [](Strategy& strategy) {
    const auto devices = strategy.extended().worker_devices();
    ASSERT_EQ(devices.size(), 1U);
    EXPECT_EQ(devices.front(), gpu(strategy.communicator().rank()));
  });
  on_gpu_workers(1, {}, [](Strategy& strategy) { EXPECT_EQ(strategy.num_replicas_in_sync(), 2); });
}

TEST_F(OnGpus, are_not_used_if_there_are_more_ranks_and_describe_says_why) {
  on_gpu_workers(3, {}, [](Strategy& strategy) {
    EXPECT_EQ(strategy.extended().worker_devices().front().kind, DeviceKind::cpu);
    const std::string text = strategy.describe();
    EXPECT_NE(text.find("GPUs were requested, but 3 ranks"), std::string::npos) << text;
    EXPECT_EQ(strategy.reduce("SUM", strategy.run([] { return 1; })), 3);
  });
}

TEST_F(OnGpus, suffice_for_any_number_of_replicas_and_ranks) {
  using Devices = std::vector<Device>;
  const auto expect_devices = [](const std::vector<int>& replicas, const std::vector<Devices>& expected) {
    on_ranks(std::vector<int>(replicas.size(), 1), [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      EXPECT_EQ(gpus_of_replicas(communicator, replicas[rank]), expected[rank]) << "rank " << rank;
    });
  };
  expect_devices({3}, {{gpu(0), gpu(0, 1), gpu(1)}});
  expect_devices({1, 2}, {{gpu(0)}, {gpu(1), gpu(1, 1)}});
  expect_devices({1, 1, 2}, {{gpu(0)}, {gpu(0)}, {gpu(1), gpu(1, 1)}});
}

TEST_F(OnGpus, for_zero_replicas_are_refused_on_all_ranks) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    const bool is_wrong = communicator.rank() == 1;
    expect_error(is_wrong ? Code::invalid_argument : Code::unavailable, {"gpus_of_replicas", "replicas is 0"},
                 [&] { (void)gpus_of_replicas(communicator, is_wrong ? 0 : 1); });
    communicator.barrier();
  });
}

TEST(GpuDevices, of_replicas_are_refused_on_all_ranks_with_the_reason) {
  const FakeGpus none({.devices = 0});
  on_ranks({1, 1}, [](Communicator& communicator) {
    expect_error(
        Code::unavailable,
        {"gpus_of_replicas: rank 0 sees no GPU", "(on rank " + std::to_string(communicator.rank()) + ": no GPU"},
        [&] { (void)gpus_of_replicas(communicator, 1); });
  });
}

TEST_F(OnGpus, that_do_not_exist_on_one_rank_are_an_error_on_the_others_too) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    if (communicator.rank() == 1) options.devices = std::vector<Device>{gpu(9)};
    expect_error(Code::unavailable, {"gpu:9 does not exist"},
                 [&] { MultiWorkerMirroredStrategy strategy(communicator, options); });
    communicator.barrier();
  });
}

TEST_F(OnGpus, receive_the_batches_of_their_ranks) {
  on_gpu_workers(2, {}, [](Strategy& strategy) {
    const auto data = Dataset<Tensor>::range(8).batch(4);
    for (const auto& batch : strategy.experimental_distribute_dataset(data))
      EXPECT_EQ(batch.value().device(), strategy.extended().worker_devices().front());
  });
}

}  // namespace
}  // namespace lockstep::test
