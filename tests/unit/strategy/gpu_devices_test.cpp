// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The devices that strategies use, and the errors for devices that do not exist.

#include "strategy/gpu_shares.hpp"
#include "unit/strategy/gpu_strategies.hpp"

namespace lockstep::test {
namespace {

std::vector<std::string> names(std::span<const Device> devices) {
  std::vector<std::string> result;
  for (const Device device : devices) result.push_back(to_string(device));
  return result;
}
std::vector<std::string> names(Strategy& strategy) { return names(strategy.extended().worker_devices()); }

using Names = std::vector<std::string>;

TEST_F(OnGpus, are_all_used_by_a_mirrored_strategy_by_default) {
  MirroredStrategy strategy;
  EXPECT_EQ(names(strategy), (Names{"gpu:0", "gpu:1"}));
}

TEST(GpuDevices, default_to_the_host_with_a_reason_if_there_are_none) {
  const auto expect_host = [](const FakeCudaOptions& cuda, const std::string& why) {
    const FakeGpus none(cuda);
    MirroredStrategy strategy;
    EXPECT_EQ(names(strategy), (Names{"cpu:0"}));
    const std::string text = strategy.describe();
    const std::string devices = "  devices: cpu:0, since there is no GPU: " + why + "\n";
    EXPECT_NE(text.find(devices + "  libraries for GPUs: CUDA 13.0"), std::string::npos) << text;
    EXPECT_NE(text.find(" of a fake NCCL\n"), std::string::npos) << text;
    EXPECT_EQ(MirroredStrategy({"cpu:0"}).describe().find("GPU"), std::string::npos);
  };
  expect_host({.devices = 0}, "no GPU is visible");
  expect_host({.driver_version = 0}, "no CUDA driver");
}

TEST_F(OnGpus, can_be_named_and_have_several_replicas_each) {
  on_each_layout([](MirroredStrategy& strategy) {
    const auto devices = strategy.extended().worker_devices();
    const auto of_replicas = strategy.run([](ReplicaContext& replica) { return replica.devices().front(); });
    for (int i = 0; i < of_replicas.size(); ++i)
      EXPECT_EQ(of_replicas.component(i), devices[static_cast<std::size_t>(i)]);
  });
  OneDeviceStrategy one("/device:GPU:1");
  EXPECT_EQ(names(one), Names{"gpu:1"});
}

TEST_F(OnGpus, that_do_not_exist_are_refused_with_a_list_of_those_that_do) {
  expect_error(Code::unavailable, {"OneDeviceStrategy", "gpu:2 does not exist", "gpu:0 to gpu:1", "2 GPUs"},
               [] { OneDeviceStrategy strategy("gpu:2"); });
  expect_error(Code::unavailable, {"MirroredStrategy", "gpu:7#1 does not exist"},
               [] { MirroredStrategy strategy({"gpu:0", "gpu:7#1"}); });
  expect_error(Code::unavailable, {"gpu:-1 does not exist"}, [] { OneDeviceStrategy strategy(gpu(-1)); });
}

TEST(GpuDevices, are_refused_with_a_reason_if_there_are_none) {
  const FakeGpus none({.devices = 2, .driver_version = 0});
  expect_error(Code::unavailable, {"gpu:0 does not exist", "cpu:0, cpu:1, ...", "no CUDA driver"},
               [] { MirroredStrategy strategy({"gpu:0"}); });
}

TEST_F(OnGpus, named_twice_are_refused_with_advice) {
  expect_error(Code::invalid_argument, {"duplicate device gpu:0", "gpu:0, gpu:0#1"},
               [] { MirroredStrategy strategy({"gpu:0", "GPU:0"}); });
  expect_error(Code::invalid_argument, {"duplicate device gpu:1#1", "gpu:1#1, gpu:1#2"},
               [] { MirroredStrategy strategy({"gpu:1#1", "gpu:1#1"}); });
}

TEST_F(OnGpus, are_the_current_ones_in_steps_and_updates_and_have_a_stream_each) {
  detail::cuda::Api& api = detail::cuda::Backend::of_this_process().api();
  const auto current = [&api] {
    int device = -1;
    EXPECT_EQ(api.get_device(device), detail::cuda::Status::success);
    return device;
  };
  MirroredStrategy strategy({"gpu:1", "gpu:0", "gpu:0#1"});
  const auto found = strategy.run([&](ReplicaContext& replica) { return std::pair(current(), replica.stream()); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(found.first.component(i), i == 0 ? 1 : 0);
  EXPECT_NE(found.second.component(1), found.second.component(2));
  for (int i = 0; i < 3; ++i) EXPECT_NE(found.second.component(i), nullptr);
  const Variable v = strategy.variable(Tensor::scalar(1.0F));
  const auto in_updates = strategy.extended().update(v, [&](const auto&) { return current(); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(in_updates.component(i), i == 0 ? 1 : 0);
  const auto on_host = MirroredStrategy({"cpu:0"}).run([](ReplicaContext& replica) { return replica.stream(); });
  EXPECT_EQ(on_host.value(), nullptr);
}

TEST_F(OnGpus, a_strategy_describes_the_path_of_values) {
  const auto expect_part = [](const Strategy& strategy, const std::string& part) {
    EXPECT_NE(strategy.describe().find(part), std::string::npos) << part << " is missing in: " << strategy.describe();
  };
  MirroredStrategy gpus({"gpu:0", "gpu:1"});
  expect_part(gpus, "devices gpu:0 gpu:1");
  expect_part(gpus,
              "canonical order but where NCCL adds, because no cross_device_ops were given and all devices are GPUs");
  expect_part(gpus, "path: between GPUs, by a path that the first collective selects");
  gpus.run([](ReplicaContext& replica) { (void)replica.all_reduce("SUM", tensor_of(replica, std::vector{1.0F})); });
  expect_part(gpus, "path: between GPUs: NCCL");
  expect_part(MirroredStrategy({"cpu:0", "gpu:1"}), "path: host memory, because some devices are CPUs and some GPUs");
  expect_part(MirroredStrategy({"cpu:0"}), "path: host memory\n");
}

TEST(GpuDevices, without_nccl_use_host_memory_and_describe_says_so) {
  const FakeGpus gpus({.devices = 2}, {.absent = "no libnccl.so.2"});
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto sums = strategy.run(
      [](ReplicaContext& replica) { return replica.all_reduce("SUM", tensor_of(replica, std::vector{1.0F, 2.0F})); });
  EXPECT_EQ(elements_from<float>(sums.component(1)), (std::vector{2.0F, 4.0F}));
  EXPECT_NE(strategy.describe().find("path: host memory: no NCCL"), std::string::npos) << strategy.describe();
}

TEST(GpuDevices, without_nccl_are_refused_if_it_is_required) {
  const FakeGpus gpus({.devices = 2}, {.absent = "no libnccl.so.2"});
  MirroredStrategy strategy({"gpu:0", "gpu:1"}, std::make_shared<NcclAllReduce>());
  expect_error(Code::unavailable, {"NcclAllReduce", "no libnccl.so.2", "ReductionToOneDevice"},
               [&] { (void)strategy.reduce("SUM", strategy.run([] { return 1; })); });
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    options.devices = std::vector<Device>{gpu(communicator.rank())};
    options.communication_options.implementation = "NCCL";
    expect_error(Code::unavailable, {"no libnccl.so.2"},
                 [&] { MultiWorkerMirroredStrategy workers(communicator, options); });
  });
}

TEST_F(OnGpus, nccl_reduces_values_on_gpus_if_required_and_the_host_reduces_its_own) {
  for (const int packs : {0, 1, 2}) {
    MirroredStrategy strategy({"gpu:0", "gpu:1"}, std::make_shared<NcclAllReduce>(packs));
    strategy.run([](ReplicaContext& replica) {
      const auto [a, b, loss] = replica.all_reduce(
          "SUM", std::tuple(tensor_of(replica, std::vector{1.0F, 2.0F}), tensor_of(replica, std::vector{3.0F}), 0.5));
      EXPECT_EQ(elements_from<float>(a), (std::vector{2.0F, 4.0F}));
      EXPECT_EQ(elements_from<float>(b), std::vector{6.0F});
      EXPECT_EQ(loss, 1.0);
    });
  }
  EXPECT_GT(gpus_.nccl().calls().count("all_reduce"), 0);
  EXPECT_FALSE(NcclAllReduce().is_canonical());
  EXPECT_TRUE(NcclAllReduce(1, Order::canonical).is_canonical());
  expect_error(Code::invalid_argument, {"NcclAllReduce", "num_packs is -1"}, [] { NcclAllReduce ops(-1); });
}

TEST_F(OnGpus, nccl_that_is_required_refuses_values_that_it_cannot_reach) {
  expect_error(Code::unavailable, {"NCCL", "host memory", "AUTO or RING"}, [] {
    MirroredStrategy strategy({"gpu:0", "gpu:1"});
    strategy.run([](ReplicaContext& r) { (void)r.all_reduce("SUM", 1.0F, {.implementation = "NCCL"}); });
  });
  // two ranks on one GPU
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    options.devices = std::vector<Device>{gpu(0)};
    options.communication_options.implementation = "NCCL";
    expect_error(Code::unavailable, {"implementation NCCL", "ranks 0 and 1 share GPU-", "AUTO or RING"},
                 [&] { MultiWorkerMirroredStrategy strategy(communicator, options); });
  });
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    if (communicator.rank() == 0) options.devices = std::vector<Device>{gpu(0)};
    options.communication_options.implementation = "NCCL";
    expect_error(Code::unavailable, {"implementation NCCL", "CPUs as well"},
                 [&] { MultiWorkerMirroredStrategy strategy(communicator, options); });
  });
}

TEST_F(OnGpus, nccl_gets_the_requested_number_of_packs) {
  for (const auto& [packs, calls] : {std::pair(0, 4), std::pair(1, 1), std::pair(2, 2)}) {
    MirroredStrategy strategy({"gpu:0", "gpu:1"}, std::make_shared<NcclAllReduce>(packs));
    const int before = gpus_.nccl().calls().count("all_reduce");
    strategy.run([](ReplicaContext& replica) {
      const std::vector<Tensor> four(4, tensor_of(replica, std::vector{1.0F, 2.0F}));
      for (const Tensor& sum : replica.all_reduce("SUM", four))
        EXPECT_EQ(elements_from<float>(sum), (std::vector{2.0F, 4.0F}));
    });
    EXPECT_EQ(gpus_.nccl().calls().count("all_reduce") - before, 2 * calls) << packs << " packs";
  }
}

GpuId id(std::uint8_t number) {
  GpuId result{};
  result[0] = number;
  return result;
}

std::vector<GpuShare> shares(const std::vector<VisibleGpus>& ranks, WhenCrowded crowded) {
  const GpuShares found = shares_of_gpus(ranks, crowded);
  EXPECT_EQ(found.why_not, "");
  return found.of_rank;
}

TEST(GpuShares, divide_gpus_visible_to_several_ranks_and_keep_those_visible_to_one) {
  const VisibleGpus four{true, {id(1), id(2), id(3), id(4)}};
  for (const WhenCrowded crowded : {WhenCrowded::none_has_any, WhenCrowded::neighbours_share_one}) {
    EXPECT_EQ(shares({four, four}, crowded), (std::vector<GpuShare>{{0, 2}, {2, 2}}));
    EXPECT_EQ(shares({four, four, four}, crowded), (std::vector<GpuShare>{{0, 1}, {1, 1}, {2, 2}}));
    EXPECT_EQ(shares({{true, {id(1)}}, {true, {id(2)}}}, crowded), (std::vector<GpuShare>{{0, 1}, {0, 1}}));
    // two nodes
    const VisibleGpus other{true, {id(5), id(6)}};
    EXPECT_EQ(shares({four, other, four, other}, crowded), (std::vector<GpuShare>{{0, 2}, {0, 1}, {2, 2}, {1, 1}}));
    // a rank that names its devices does not take part
    EXPECT_EQ(shares({{false, {}}, {true, {id(1)}}}, crowded), (std::vector<GpuShare>{{0, 0}, {0, 1}}));
  }
}

TEST(GpuShares, give_neighbouring_ranks_the_same_gpu_if_sharing_is_allowed) {
  const VisibleGpus one{true, {id(1)}};
  const VisibleGpus two{true, {id(1), id(2)}};
  const auto crowd = WhenCrowded::neighbours_share_one;
  EXPECT_EQ(shares({one, one}, crowd), (std::vector<GpuShare>{{0, 1}, {0, 1}}));
  EXPECT_EQ(shares({two, two, two}, crowd), (std::vector<GpuShare>{{0, 1}, {0, 1}, {1, 1}}));
  EXPECT_EQ(shares({two, two, two, two}, crowd), (std::vector<GpuShare>{{0, 1}, {0, 1}, {1, 1}, {1, 1}}));
}

TEST(GpuShares, are_empty_if_a_rank_would_get_none_or_sees_only_part_of_anothers) {
  const VisibleGpus one{true, {id(1)}};
  const GpuShares too_few = shares_of_gpus(std::vector{one, one}, WhenCrowded::none_has_any);
  EXPECT_TRUE(too_few.of_rank.empty());
  EXPECT_NE(
      too_few.why_not.find("2 ranks (rank 0 is the lowest) see the same GPU, so there is less than one GPU for each"),
      std::string::npos);
  for (const WhenCrowded crowded : {WhenCrowded::none_has_any, WhenCrowded::neighbours_share_one}) {
    const GpuShares blind = shares_of_gpus(std::vector<VisibleGpus>{one, {true, {}}}, crowded);
    EXPECT_TRUE(blind.of_rank.empty());
    EXPECT_EQ(blind.why_not, "rank 1 sees no GPU");
    const GpuShares overlap =
        shares_of_gpus(std::vector<VisibleGpus>{{true, {id(1), id(2)}}, {true, {id(2), id(3)}}}, crowded);
    EXPECT_TRUE(overlap.of_rank.empty());
    EXPECT_NE(overlap.why_not.find("ranks 0 and 1 see some of the same GPUs"), std::string::npos);
  }
}

TEST(GpuShares, spread_replicas_with_neighbours_on_the_same_gpu) {
  EXPECT_EQ(names(spread_over({0, 1}, 3)), (Names{"gpu:0", "gpu:0#1", "gpu:0#2"}));
  EXPECT_EQ(names(spread_over({2, 2}, 4)), (Names{"gpu:2", "gpu:2#1", "gpu:3", "gpu:3#1"}));
  EXPECT_EQ(names(spread_over({0, 2}, 3)), (Names{"gpu:0", "gpu:0#1", "gpu:1"}));
  EXPECT_EQ(names(spread_over({1, 4}, 2)), (Names{"gpu:1", "gpu:2"}));
}

}  // namespace
}  // namespace lockstep::test
