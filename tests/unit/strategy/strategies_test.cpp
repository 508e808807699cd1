// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "unit/strategy/strategies.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"

#include <memory>
#include <optional>

namespace lockstep::test {
namespace {

std::vector<std::string> names(std::span<const Device> devices) {
  std::vector<std::string> result;
  for (const Device& device : devices) result.push_back(to_string(device));
  return result;
}

TEST(OneDevice, has_one_replica_on_its_device) {
  OneDeviceStrategy strategy("CPU:0");
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  EXPECT_TRUE(strategy.is_chief());
  EXPECT_EQ(names(strategy.extended().worker_devices()), (std::vector<std::string>{"cpu:0"}));
  EXPECT_EQ(names(strategy.extended().parameter_devices()), (std::vector<std::string>{"cpu:0"}));
}

TEST(OneDevice, refuses_invalid_device_names_and_missing_devices) {
  expect_error(Code::invalid_argument, {"chair:0"}, [] { OneDeviceStrategy strategy("chair:0"); });
  expect_error(Code::unavailable, {"gpu:0"}, [] { OneDeviceStrategy strategy("gpu:0"); });
}

TEST(Mirrored_, has_a_replica_on_each_device) {
  MirroredStrategy strategy(std::vector<std::string>{"cpu:0", "/device:CPU:1"});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
  EXPECT_EQ(names(strategy.extended().worker_devices()), (std::vector<std::string>{"cpu:0", "cpu:1"}));
  EXPECT_EQ(MirroredStrategy().num_replicas_in_sync(), 1);
}

TEST(OneDevice, refuses_the_name_of_a_device_of_another_task) {
  EXPECT_EQ(names(OneDeviceStrategy("/job:localhost/replica:0/task:0/device:CPU:2").extended().worker_devices()),
            (std::vector<std::string>{"cpu:2"}));
  expect_error(Code::invalid_argument, {"\"/job:worker/task:1/device:CPU:0\"", "another task", "this rank is task 0"},
               [] { OneDeviceStrategy strategy("/job:worker/task:1/device:CPU:0"); });
  expect_error(Code::invalid_argument, {"/replica:1/cpu:0", "replica 1", "only replica 0"},
               [] { MirroredStrategy strategy({"cpu:1", "/replica:1/cpu:0"}); });
  expect_error(Code::invalid_argument, {"/task:3/cpu:0", "another task"},
               [] { MirroredStrategy strategy(std::vector<std::string>{"/task:3/cpu:0"}); });
}

TEST(Mirrored_, has_the_default_devices_if_none_are_given) {
  class Mine : public CrossDeviceOps {
   public:
    [[nodiscard]] std::string describe() const override { return "Mine"; }
    [[nodiscard]] bool is_canonical() const noexcept override { return true; }

   protected:
    void do_batch_reduce(Communicator&, std::span<const Item> items, ReduceOp op,
                         const CommunicationOptions&) override {
      for (const Item& item : items) reduce_local(item.inputs, item.outputs, op);
    }
  };
  const auto ops = std::make_shared<Mine>();
  const auto has_defaults = [](const Strategy& strategy) {
    return strategy.describe().find("reducer: Mine") != std::string::npos &&
           strategy.num_replicas_in_sync() == MirroredStrategy().num_replicas_in_sync();
  };
  EXPECT_TRUE(has_defaults(MirroredStrategy(ops)));
  EXPECT_TRUE(has_defaults(MirroredStrategy(std::nullopt, ops)));
  EXPECT_TRUE(has_defaults(MirroredStrategy({}, ops)));
  EXPECT_TRUE(has_defaults(v1::MirroredStrategy(ops)));
  EXPECT_TRUE(has_defaults(v1::MirroredStrategy(std::nullopt, ops)));
  EXPECT_EQ(MirroredStrategy({}).num_replicas_in_sync(), MirroredStrategy().num_replicas_in_sync());
  EXPECT_EQ(MirroredStrategy(std::nullopt).num_replicas_in_sync(), MirroredStrategy().num_replicas_in_sync());
  EXPECT_EQ(v1::MirroredStrategy().num_replicas_in_sync(), MirroredStrategy().num_replicas_in_sync());
  EXPECT_EQ(MirroredStrategy({"cpu:0", "cpu:1"}, ops).num_replicas_in_sync(), 2);
  expect_error(Code::invalid_argument, {"the list of devices is empty"},
               [] { MirroredStrategy strategy(std::vector<std::string>{}); });
}

TEST(Mirrored_, takes_names_in_braces) {
  for (const int count : {1, 2, 3}) {
    MirroredStrategy strategy = count == 1   ? MirroredStrategy({"cpu:0"})
                                : count == 2 ? MirroredStrategy({"cpu:0", "cpu:1"})
                                             : MirroredStrategy({"cpu:0", "cpu:1", "cpu:2"});
    EXPECT_EQ(strategy.num_replicas_in_sync(), count);
  }
}

TEST(Mirrored_, refuses_an_empty_list_and_repeated_devices) {
  expect_error(Code::invalid_argument, {"device", "empty"},
               [] { MirroredStrategy strategy(std::vector<std::string>{}); });
  expect_error(Code::invalid_argument, {"duplicate", "cpu:0"},
               [] { MirroredStrategy strategy(std::vector<std::string>{"CPU:0", "/device:cpu:0"}); });
}

TEST(Default, has_one_replica_and_no_devices_of_its_own) {
  Strategy& strategy = get_strategy();
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  EXPECT_EQ(strategy.run([](float x) { return 2 * x; }, 3.0F).value(), 6.0F);
  expect_error(Code::failed_precondition, {"worker_devices"}, [&] { (void)strategy.extended().worker_devices(); });
}

TEST(MultiWorker, numbers_replicas_by_rank_then_device) {
  on_workers({2, 1, 3}, [](Strategy& strategy) {
    EXPECT_EQ(strategy.num_replicas_in_sync(), 6);
    const int first = std::vector<int>{0, 2, 3}[static_cast<std::size_t>(strategy.communicator().rank())];
    EXPECT_EQ(strategy.is_chief(), strategy.communicator().rank() == 0);
    const auto ids = strategy.run([](ReplicaContext& r) { return r.replica_id_in_sync_group(); });
    EXPECT_EQ(ids.first_replica(), first);
    for (int i = 0; i < ids.size(); ++i) EXPECT_EQ(ids.component(i), first + i);
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, ids), 15);
  });
}

TEST(MultiWorker, takes_a_list_of_devices_per_rank) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    options.devices = communicator.rank() == 0 ? std::vector<Device>{{DeviceKind::cpu, 4}}
                                               : std::vector<Device>{{DeviceKind::cpu, 0}, {DeviceKind::cpu, 1}};
    MultiWorkerMirroredStrategy strategy(communicator, options);
    EXPECT_EQ(strategy.num_replicas_in_sync(), 3);
    EXPECT_EQ(names(strategy.extended().worker_devices()).front(), communicator.rank() == 0 ? "cpu:4" : "cpu:0");
  });
}

TEST(MultiWorker, with_a_wrong_list_on_one_rank_is_an_error_on_all) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    if (communicator.rank() == 1) options.devices = std::vector<Device>{};
    expect_error(communicator.rank() == 1 ? Code::invalid_argument : Code::unavailable, {"list of devices is empty"},
                 [&] { MultiWorkerMirroredStrategy strategy(communicator, options); });
    communicator.barrier();
  });
}

TEST(MultiWorker, names_the_options_that_differ_between_ranks) {
  const auto error_with = [](FunctionRef<void(MultiWorkerOptions&)> change) {
    std::array<std::string, 2> errors;
    on_ranks({1, 1}, [&](Communicator& communicator) {
      MultiWorkerOptions options;
      if (communicator.rank() == 1) change(options);
      errors[static_cast<std::size_t>(communicator.rank())] =
          error_of([&] { MultiWorkerMirroredStrategy strategy(communicator, options); });
      communicator.barrier();
    });
    EXPECT_EQ(errors[0], errors[1]);
    return errors[0];
  };
  EXPECT_EQ(error_with([](MultiWorkerOptions&) {}), "none");
  EXPECT_EQ(error_with([](MultiWorkerOptions& options) { options.default_devices = DefaultDevices::gpus; }),
            "mismatch: MultiWorkerMirroredStrategy: default_devices is cpus on rank 0 but gpus on rank 1; it must be "
            "equal on all ranks");
  expect_all(error_with([](MultiWorkerOptions& options) { options.communication_options.timeout_seconds = 2; }),
             {"communication_options.timeout_seconds is not set on rank 0 but 2 s on rank 1"});
  expect_all(error_with([](MultiWorkerOptions& options) { options.communication_options.bytes_per_pack = 64; }),
             {"communication_options.bytes_per_pack is 0 on rank 0 but 64 on rank 1"});
}

TEST(MultiWorker, counts_a_plain_value_once_per_rank_when_each_has_one_replica) {
  on_workers({1, 1}, [](Strategy& strategy) {
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, 1.0F), 2.0F);
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, std::vector<int>{1, 2}, 0), 6);
  });
  on_workers({2, 1}, [](Strategy& strategy) {
    EXPECT_EQ(strategy.reduce(ReduceOp::mean, 1.0F), 1.0F);
    expect_error(Code::invalid_argument, {"the sum of a plain value"},
                 [&] { (void)strategy.reduce(ReduceOp::sum, 1.0F); });
  });
}

TEST(Distribute, gives_every_replica_its_chunk_of_each_global_batch) {
  on_workers({2, 1, 1}, [](Strategy& strategy) {
    const auto data = Dataset<Tensor>::range(8).batch(8);
    int steps = 0;
    for (const auto& batch : strategy.experimental_distribute_dataset(data)) {
      ++steps;
      const auto sums = strategy.run(
          [](ReplicaContext& replica, const Tensor& rows) {
            const auto elements = rows.elements<std::int64_t>();
            EXPECT_EQ(elements.size(), 2U);
            EXPECT_EQ(elements[0], 2 * replica.replica_id_in_sync_group());
            return elements[0] + elements[1];
          },
          batch);
      EXPECT_EQ(strategy.reduce(ReduceOp::sum, sums), 28);
    }
    EXPECT_EQ(steps, 1);
  });
}

TEST(Distribute, from_a_function_gives_every_rank_its_own_dataset) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const auto data = strategy.experimental_distribute_datasets_from_function([](const InputContext& context) {
      EXPECT_EQ(context.num_input_pipelines(), 2);
      return Dataset<Tensor>::range(4 * (1 + context.input_pipeline_id())).batch(2);
    });
    std::int64_t total = 0;
    for (const auto& batch : data) {
      const auto sums = strategy.run(
          [](const Tensor& rows) {
            std::int64_t sum = 0;
            for (const std::int64_t x : rows.elements<std::int64_t>()) sum += x;
            return sum;
          },
          batch);
      total += strategy.reduce(ReduceOp::sum, sums);
    }
    EXPECT_EQ(total, 6 + 28);
  });
}

}  // namespace
}  // namespace lockstep::test
