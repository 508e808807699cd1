// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Several ranks with GPUs. They are threads of one process, so all see the same.

#include "unit/strategy/gpu_strategies.hpp"

#include <mutex>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

/// `body(strategy)` on `ranks` ranks whose devices are `devices`, or their shares of the GPUs.
void on_gpu_workers(int ranks, const std::vector<std::vector<Device>>& devices,
                    const std::function<void(Strategy&)>& body) {
  on_ranks(std::vector<int>(static_cast<std::size_t>(ranks), 1), [&](Communicator& communicator) {
    MultiWorkerOptions options;
    options.default_devices = DefaultDevices::gpus;
    if (!devices.empty()) options.devices = devices[static_cast<std::size_t>(communicator.rank())];
    MultiWorkerMirroredStrategy strategy(communicator, options);
    body(strategy);
  });
}

TEST_F(OnGpus, ranks_stay_on_hosts_unless_they_are_told_to_use_them) {
  on_workers({1, 2}, [](Strategy& strategy) {
    for (const Device device : strategy.extended().worker_devices()) EXPECT_EQ(device.kind, DeviceKind::cpu);
  });
}

TEST_F(OnGpus, ranks_share_them) {
  on_gpu_workers(2, {}, [](Strategy& strategy) {
    const auto devices = strategy.extended().worker_devices();
    ASSERT_EQ(devices.size(), 1U);
    EXPECT_EQ(devices.front(), gpu(strategy.communicator().rank()));
  });
  on_gpu_workers(1, {}, [](Strategy& strategy) { EXPECT_EQ(strategy.num_replicas_in_sync(), 2); });
}

TEST_F(OnGpus, ranks_that_are_too_many_for_them_all_stay_on_hosts_and_say_why) {
  on_gpu_workers(3, {}, [](Strategy& strategy) {
    EXPECT_EQ(strategy.extended().worker_devices().front().kind, DeviceKind::cpu);
    const std::string text = strategy.describe();
    EXPECT_NE(text.find("GPUs were asked for, but 3 ranks"), std::string::npos) << text;
    EXPECT_EQ(strategy.reduce("SUM", strategy.run([] { return 1; })), 3);
  });
}

TEST_F(OnGpus, are_enough_for_replicas_and_ranks_of_any_number) {
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

TEST_F(OnGpus, for_no_replica_are_refused_and_the_other_ranks_told) {
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
    expect_error(Code::unavailable, {"gpus_of_replicas: rank 0 sees no GPU", "here: no GPU"},
                 [&] { (void)gpus_of_replicas(communicator, 1); });
  });
}

TEST_F(OnGpus, a_rank_that_names_one_that_is_not_here_tells_the_others) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    if (communicator.rank() == 1) options.devices = std::vector<Device>{gpu(9)};
    expect_error(Code::unavailable, {"gpu:9 is not here"},
                 [&] { MultiWorkerMirroredStrategy strategy(communicator, options); });
    communicator.barrier();
  });
}

/// Layouts of two ranks: all on GPUs, of their own and shared, ranks and replicas of several kinds.
const std::vector<std::vector<std::vector<Device>>> two_ranks{{{gpu(0)}, {gpu(1)}},   {{gpu(0), gpu(0, 1)}, {gpu(1)}},
                                                              {{gpu(0)}, {gpu(0)}},   {{gpu(0), gpu(1)}, {gpu(1)}},
                                                              {{gpu(0)}, {Device{}}}, {{gpu(1), Device{}}, {gpu(0)}}};

TEST_F(OnGpus, replicas_of_ranks_reduce_gather_and_broadcast) {
  for (const auto& devices : two_ranks) {
    on_gpu_workers(2, devices, [](Strategy& strategy) {
      const int n = strategy.num_replicas_in_sync();
      strategy.run([n](ReplicaContext& replica) {
        const auto id = static_cast<float>(replica.replica_id_in_sync_group());
        const Tensor mine = tensor_of(replica, Floats{id, 1});
        const Tensor sum = replica.all_reduce("SUM", mine);
        EXPECT_TRUE(same_place(sum.device(), mine.device()));
        EXPECT_EQ(elements_from<float>(sum), (Floats{static_cast<float>(n * (n - 1) / 2), static_cast<float>(n)}));
        EXPECT_EQ(replica.all_reduce(ReduceOp::max, id), static_cast<float>(n - 1));
        const Tensor all = replica.all_gather(mine, 0);
        EXPECT_EQ(elements_from<float>(all).size(), static_cast<std::size_t>(2 * n));
        EXPECT_EQ(elements_from<float>(all)[2], 1.0F);
        for (int root = 0; root < n; ++root)
          EXPECT_EQ(elements_from<float>(replica.broadcast(mine, root)), (Floats{static_cast<float>(root), 1}));
      });
    });
  }
}

TEST_F(OnGpus, variables_of_ranks_are_equal_and_aggregate) {
  for (const auto& devices : two_ranks) {
    on_gpu_workers(2, devices, [](Strategy& strategy) {
      const auto n = static_cast<float>(strategy.num_replicas_in_sync());
      const auto rank = static_cast<float>(strategy.communicator().rank());
      const auto v = strategy.variable<float>(Floats{rank + 1}, aggregated_by(VariableAggregation::sum));
      EXPECT_EQ(v.values(), Floats{1});  // rank 0's
      strategy.run([&](ReplicaContext& replica) { v.assign_add(tensor_of(replica, Floats{2})); });
      for (const Floats& copy : copies_from<float>(v)) EXPECT_EQ(copy, Floats{1 + 2 * n});
      for (const auto aggregation : {VariableAggregation::sum, VariableAggregation::only_first_replica}) {
        const auto r = strategy.sync_on_read_variable<float>(Floats{0}, {.name = "r", .aggregation = aggregation});
        strategy.run([&](ReplicaContext& replica) {
          r.assign(Floats{static_cast<float>(replica.replica_id_in_sync_group() + 3)});
        });
        EXPECT_EQ(r.value(), aggregation == VariableAggregation::sum ? 3 * n + n * (n - 1) / 2 : 3.0F);
      }
      const auto sums = strategy.extended().reduce_to(
          "SUM", strategy.run([](ReplicaContext& replica) { return tensor_of(replica, Floats{1}); }), v);
      for (int i = 0; i < sums.size(); ++i) EXPECT_EQ(elements_from<float>(sums.component(i)), Floats{n});
      EXPECT_EQ(elements_of<float>(strategy.reduce("MEAN", sums)), Floats{n});
    });
  }
}

/// Replica r brings r rows, some in host memory and some on its device.
TEST_F(OnGpus, rows_of_ranks_are_written_to_all_copies) {
  for (const auto& devices : two_ranks) {
    on_gpu_workers(2, devices, [](Strategy& strategy) {
      const int n = strategy.num_replicas_in_sync();
      const Tensor zeros = tensor(Floats(8), Shape{4, 2});
      const Variable sum = strategy.variable(zeros, aggregated_by(VariableAggregation::sum));
      const Variable mean = strategy.variable(zeros, aggregated_by(VariableAggregation::mean));
      const Variable first = strategy.variable(zeros, aggregated_by(VariableAggregation::only_first_replica));
      strategy.run([&](ReplicaContext& replica) {
        const auto id = static_cast<std::size_t>(replica.replica_id_in_sync_group());
        const Device place = id == 1 ? Device{} : replica.devices().front();
        const IndexedSlices rows = slices(std::vector<std::int64_t>(id, 3), Floats(2 * id, 1), 4);
        const IndexedSlices mine{rows.values.reshaped(Shape{static_cast<std::int64_t>(id), 2}).to(place),
                                 rows.indices.to(place), 4};
        sum.scatter_add(mine);
        mean.scatter_sub(mine);
        const IndexedSlices other = slices({static_cast<std::int64_t>(id)}, {5, 6}, 4);
        first.scatter_update({other.values.to(place), other.indices.to(place), 4});
      });
      const auto rows = static_cast<float>(n * (n - 1) / 2);
      for (const Floats& copy : copies_from<float>(sum)) EXPECT_EQ(copy, (Floats{0, 0, 0, 0, 0, 0, rows, rows}));
      for (const Floats& copy : copies_from<float>(first)) EXPECT_EQ(copy, (Floats{5, 6, 0, 0, 0, 0, 0, 0}));
      float expected = 0;
      for (float row = 0; row < rows; ++row) expected -= 1 / static_cast<float>(n);
      for (const Floats& copy : copies_from<float>(mean)) EXPECT_EQ(copy[7], expected);
    });
  }
}

TEST_F(OnGpus, ranks_get_their_batches_there) {
  on_gpu_workers(2, {}, [](Strategy& strategy) {
    const auto data = Dataset<Tensor>::range(8).batch(4);
    for (const auto& batch : strategy.experimental_distribute_dataset(data))
      EXPECT_EQ(batch.value().device(), strategy.extended().worker_devices().front());
  });
}

}  // namespace
}  // namespace lockstep::test
