// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The devices that results name: the devices that were asked for, or the devices of the replicas.

#include "unit/strategy/strategies.hpp"

#include <optional>
#include <tuple>
#include <utility>

namespace lockstep::test {
namespace {

using Names = std::vector<std::string>;

template <class Distributed>
Names devices_of(const Distributed& value) {
  Names names;
  for (int i = 0; i < value.size(); ++i) names.push_back(to_string(value.component(i).device()));
  return names;
}

const Names both{"cpu:0", "cpu:1"};

IndexedSlices one_row() { return slices({1}, {1, 2}, 5); }

TEST(ResultDevices, of_run_are_the_devices_of_the_replicas) {
  MirroredStrategy strategy = mirrored(2);
  const Tensor outside = Tensor::scalar(1.0F);
  EXPECT_EQ(devices_of(strategy.run([] { return Tensor::scalar(1); })), both);
  EXPECT_EQ(devices_of(strategy.run([&] { return outside; })), both);
  EXPECT_EQ(to_string(outside.device()), "cpu:0");
  const auto [pair_first, pair_rest] =
      strategy.run([] { return std::pair(Tensor::scalar(1), std::vector{std::optional(Tensor::scalar(2))}); });
  EXPECT_EQ(devices_of(pair_first), both);
  EXPECT_EQ(devices_of(pair_rest.front().value()), both);
  const auto sparse = strategy.run([] { return one_row(); });
  EXPECT_EQ(to_string(sparse.component(1).values.device()), "cpu:1");
  EXPECT_EQ(to_string(sparse.component(1).indices.device()), "cpu:1");
  OneDeviceStrategy one("cpu:3");
  EXPECT_EQ(to_string(one.experimental_local_results(one.run([] { return Tensor::scalar(1); }))[0].device()), "cpu:3");
}

TEST(ResultDevices, of_a_step_that_fails_on_one_replica_leave_the_strategy_usable) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::unavailable, {"no value"}, [&] {
    static_cast<void>(strategy.run([](ReplicaContext& replica) {
      if (replica.local_replica() == 1) throw Error(Code::unavailable, "no value");
      return Tensor::scalar(1);
    }));
  });
  EXPECT_EQ(devices_of(strategy.run([] { return Tensor::scalar(1); })), both);
}

TEST(ResultDevices, of_the_collectives_of_a_replica_are_its_device) {
  MirroredStrategy strategy = mirrored(2);
  strategy.run([](ReplicaContext& replica) {
    const Device mine = replica.devices().front();
    const Tensor value = Tensor::from(std::vector<float>{1, 2});
    EXPECT_EQ(replica.all_reduce("SUM", value).device(), mine);
    EXPECT_EQ(replica.all_gather(value, 0).device(), mine);
    EXPECT_EQ(replica.broadcast(value, 1).device(), mine);
    const auto [dense, sparse] = replica.all_reduce("SUM", std::pair(value, one_row()));
    EXPECT_EQ(dense.device(), mine);
    EXPECT_EQ(sparse.values.device(), mine);
    EXPECT_EQ(sparse.indices.device(), mine);
    EXPECT_EQ(all_reduce_gradient(replica, "SUM", value).device(), mine);
    EXPECT_EQ(all_gather_gradient(replica, Tensor::from(std::vector<float>{1, 2}), 0, 1).device(), mine);
    replica.merge_call(
        [](Strategy&, const PerReplica<Tensor>& values) {
          EXPECT_EQ(to_string(values.component(1).device()), "cpu:1");
        },
        value);
  });
}

TEST(ResultDevices, of_reduce_and_gather_in_cross_replica_context_are_the_first_cpu) {
  MirroredStrategy strategy({"cpu:2", "cpu:1"});
  const auto value = strategy.run([] { return Tensor::from(std::vector<float>{1, 2}); });
  EXPECT_EQ(devices_of(value), (Names{"cpu:2", "cpu:1"}));
  EXPECT_EQ(to_string(strategy.reduce("SUM", value).device()), "cpu:0");
  EXPECT_EQ(to_string(strategy.reduce("SUM", value, 0).device()), "cpu:0");
  EXPECT_EQ(to_string(strategy.gather(value, 0).device()), "cpu:0");
  EXPECT_EQ(to_string(strategy.reduce("MEAN", value.component(1)).device()), "cpu:0");
}

TEST(ResultDevices, of_reduce_to_and_broadcast_to_are_the_destinations) {
  MirroredStrategy strategy = mirrored(2);
  StrategyExtended& extended = strategy.extended();
  const auto value = strategy.run([] { return Tensor::from(std::vector<float>{1, 2}); });
  const auto variable = strategy.variable<float>(std::vector<float>{1, 2});
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", value, "cpu:1")), Names{"cpu:1"});
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", value, Device{DeviceKind::cpu, 7})), Names{"cpu:7"});
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", value, variable)), both);
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", value, value)), both);
  EXPECT_EQ(devices_of(extended.reduce_to("MEAN", Tensor::scalar(1.0F), "cpu:1")), Names{"cpu:1"});
  EXPECT_EQ(devices_of(extended.reduce_to("MEAN", variable, "cpu:1")), Names{"cpu:1"});
  EXPECT_EQ(devices_of(extended.broadcast_to(Tensor::scalar(1.0F), "cpu:1")), Names{"cpu:1"});
  EXPECT_EQ(devices_of(extended.broadcast_to(Tensor::scalar(1.0F), variable)), both);
  const auto batch = extended.batch_reduce_to("SUM", std::vector{std::pair(value, "cpu:1"), std::pair(value, "cpu:0")});
  EXPECT_EQ(devices_of(batch[0]), Names{"cpu:1"});
  EXPECT_EQ(devices_of(batch[1]), Names{"cpu:0"});
}

TEST(ResultDevices, of_sparse_reductions_are_the_destinations) {
  MirroredStrategy strategy = mirrored(2);
  StrategyExtended& extended = strategy.extended();
  const auto value = strategy.run([] { return one_row(); });
  for (const char* op : {"SUM", "MEAN"}) {
    const auto there = extended.reduce_to(op, value, "cpu:1");
    EXPECT_EQ(to_string(there.component(0).values.device()), "cpu:1");
    EXPECT_EQ(to_string(there.component(0).indices.device()), "cpu:1");
  }
  const auto mirrored_slices = Mirrored<IndexedSlices>({one_row(), one_row()});
  const auto copies = extended.reduce_to("MEAN", mirrored_slices, strategy.variable<float>(1.0F));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(to_string(copies.component(i).values.device()), both[static_cast<std::size_t>(i)]);
    EXPECT_EQ(to_string(copies.component(i).indices.device()), both[static_cast<std::size_t>(i)]);
  }
}

TEST(ResultDevices, of_batches_are_the_devices_of_the_replicas) {
  MirroredStrategy strategy = mirrored(2);
  const auto dataset = Dataset<Tensor>::range(8).batch(4);
  for (const auto& batch : strategy.experimental_distribute_dataset(dataset)) EXPECT_EQ(devices_of(batch), both);
  const auto from_function = strategy.distribute_datasets_from_function(
      [&](const InputContext&) { return Dataset<Tensor>::range(8).batch(2); });
  for (const auto& batch : from_function) EXPECT_EQ(devices_of(batch), both);
  const auto on_host = strategy.experimental_distribute_dataset(dataset, {.experimental_fetch_to_device = false});
  for (const auto& batch : on_host) EXPECT_EQ(devices_of(batch), (Names{"cpu:0", "cpu:0"}));
}

}  // namespace
}  // namespace lockstep::test
