// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of values on GPUs in cross-replica context, with results on the host or on devices.

#include "unit/strategy/contract.hpp"

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

/// [r + 1, 2] on the device of replica r.
PerReplica<Tensor> values_of(Strategy& strategy) {
  return strategy.run([](ReplicaContext& replica) {
    return tensor_of(replica, Floats{static_cast<float>(replica.replica_id_in_sync_group() + 1), 2});
  });
}

Floats total_of(Strategy& strategy) {
  const int n = strategy.num_replicas_in_sync();
  return {static_cast<float>(n * (n + 1) / 2), static_cast<float>(2 * n)};
}

TEST_P(StrategyContract, reduce_returns_the_result_on_the_host) {
  on_every_rank([](Strategy& strategy) {
    const Tensor sum = strategy.reduce("SUM", values_of(strategy));
    EXPECT_EQ(sum.device(), Device{});
    EXPECT_EQ(elements_of<float>(sum), total_of(strategy));
    const Tensor mirrored = strategy.reduce("MEAN", strategy.extended().reduce_to("SUM", values_of(strategy), "gpu:1"));
    EXPECT_EQ(mirrored.device(), Device{});
    EXPECT_EQ(elements_of<float>(mirrored), total_of(strategy));
    EXPECT_EQ(strategy.reduce("SUM", strategy.run([] { return 1; })), strategy.num_replicas_in_sync());
  });
}

TEST_P(StrategyContract, reduce_along_an_axis_and_gather_give_host_tensors) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    const Tensor sum = strategy.reduce("SUM", values_of(strategy), 0);
    EXPECT_EQ(elements_of<float>(sum), Floats{static_cast<float>(n * (n + 1) / 2 + 2 * n)});
    const Tensor all = strategy.gather(values_of(strategy), 0);
    EXPECT_EQ(all.device(), Device{});
    Floats expected;
    for (int r = 0; r < n; ++r) expected.insert(expected.end(), {static_cast<float>(r + 1), 2});
    EXPECT_EQ(elements_of<float>(all), expected);
  });
}

TEST_P(StrategyContract, reduce_to_makes_a_copy_on_each_device_or_on_the_given_one) {
  on_every_rank([](Strategy& strategy) {
    const auto devices = strategy.extended().worker_devices();
    const Variable v = strategy.variable(Tensor::from(Floats{0, 0}));
    const auto at_variable = strategy.extended().reduce_to("SUM", values_of(strategy), v);
    ASSERT_EQ(at_variable.size(), strategy.communicator().local_replicas());
    for (int i = 0; i < at_variable.size(); ++i) {
      EXPECT_TRUE(same_place(at_variable.component(i).device(), devices[static_cast<std::size_t>(i)]));
      EXPECT_EQ(elements_from<float>(at_variable.component(i)), total_of(strategy));
    }
    for (const Device device : {gpu(0), gpu(1), Device{}}) {
      const auto there = strategy.extended().reduce_to("SUM", values_of(strategy), device);
      EXPECT_EQ(there.size(), 1);
      EXPECT_EQ(there.value().device(), device);
      EXPECT_EQ(elements_from<float>(there.value()), total_of(strategy));
    }
    EXPECT_EQ(elements_from<float>(strategy.extended().reduce_to("SUM", values_of(strategy), "cpu:3").value()),
              total_of(strategy));
    expect_error(Code::unavailable, {"reduce_to", "gpu:50 does not exist", "gpu:0 to gpu:"},
                 [&] { (void)strategy.extended().reduce_to("SUM", values_of(strategy), "gpu:50"); });
  });
}

TEST_F(OnGpus, values_in_host_memory_are_reduced_and_stay_there) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto on_host = strategy.run([] { return Tensor::from(Floats{1, 2}); });
  const auto sums = strategy.extended().reduce_to("SUM", on_host, on_host);
  for (int i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(sums.component(i).device(), Device{});
    EXPECT_EQ(elements_of<float>(sums.component(i)), (Floats{2, 4}));
  }
  // elements of a vector are always in host memory
  const auto vectors = strategy.run([] { return Floats{3}; });
  EXPECT_EQ(strategy.extended().reduce_to("SUM", vectors, "gpu:0").value(), Floats{6});
}

TEST_P(StrategyContract, batch_reduce_to_takes_values_on_different_devices_in_one_call) {
  on_every_rank([](Strategy& strategy) {
    const int n = strategy.num_replicas_in_sync();
    const Variable v = strategy.variable(Tensor::from(Floats{0, 0}));
    const auto on_host = strategy.run([] { return Tensor::from(std::vector<std::int64_t>{7}); });
    const std::vector<ReducePair> pairs{
        {values_of(strategy), v}, {on_host, on_host}, {values_of(strategy), "gpu:1"}, {on_host, v}};
    const auto results = strategy.extended().batch_reduce_to("SUM", pairs);
    const auto dense = [&](std::size_t k) { return std::get<Mirrored<Tensor>>(results[k]); };
    EXPECT_EQ(elements_from<float>(dense(0).component(dense(0).size() - 1)), total_of(strategy));
    EXPECT_EQ(dense(1).value().device(), Device{});
    EXPECT_EQ(elements_of<std::int64_t>(dense(1).value()), std::vector<std::int64_t>{7 * n});
    EXPECT_EQ(dense(2).value().device(), gpu(1));
    EXPECT_TRUE(same_place(dense(3).value().device(), strategy.extended().worker_devices()[0]));
    EXPECT_EQ(elements_from<std::int64_t>(dense(3).value()), std::vector<std::int64_t>{7 * n});
  });
}

TEST_F(OnGpus, sparse_values_are_reduced_to_their_destinations) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto rows = strategy.run([](ReplicaContext& replica) {
    const IndexedSlices mine = slices({replica.replica_id_in_sync_group()}, {1, 2}, 4);
    const Device place = replica.devices().front();
    return IndexedSlices{mine.values.to(place), mine.indices.to(place), mine.rows};
  });
  const IndexedSlices here = strategy.reduce("SUM", rows);
  EXPECT_EQ(here.values.device(), Device{});
  EXPECT_EQ(elements_of<std::int64_t>(here.indices), (std::vector<std::int64_t>{0, 1}));
  const auto there = strategy.extended().reduce_to("SUM", rows, rows);
  EXPECT_EQ(there.component(1).values.device(), gpu(1));
  EXPECT_EQ(elements_from<float>(there.component(1).values), (Floats{1, 2, 1, 2}));
  EXPECT_EQ(elements_from<float>(to_dense(there.component(1))), (Floats{1, 2, 1, 2, 0, 0, 0, 0}));
}

TEST_F(OnGpus, the_mean_of_sparse_values_is_divided_on_the_gpu) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto rows = strategy.run([](ReplicaContext& replica) {
    const Device place = replica.devices().front();
    const IndexedSlices floats = slices({1}, {1, 3}, 4);
    const Tensor integers = Tensor::from(std::vector<std::int32_t>{7}).reshaped(Shape{1, 1});
    return std::pair(IndexedSlices{floats.values.to(place), floats.indices.to(place), 4},
                     IndexedSlices{integers.to(place), floats.indices.to(place), 4});
  });
  const int before = gpus_.cuda().calls().count("reduce");
  const auto floats = strategy.extended().reduce_to("MEAN", rows.first, rows.first);
  EXPECT_EQ(elements_from<float>(floats.component(1).values), (Floats{0.5F, 1.5F, 0.5F, 1.5F}));
  const auto integers = strategy.extended().reduce_to("MEAN", rows.second, rows.second);
  EXPECT_EQ(elements_from<double>(integers.component(0).values), (std::vector<double>{3.5, 3.5}));
  EXPECT_EQ(gpus_.cuda().calls().count("reduce"), before + 4);
}

TEST_P(StrategyContract, broadcast_to_makes_copies_on_the_destinations) {
  on_every_rank([](Strategy& strategy) {
    const Variable v = strategy.variable(Tensor::from(Floats{0, 0}));
    const auto devices = strategy.extended().worker_devices();
    const auto copies = strategy.extended().broadcast_to(Tensor::from(Floats{1, 2}), v);
    for (int i = 0; i < copies.size(); ++i) {
      EXPECT_TRUE(same_place(copies.component(i).device(), devices[static_cast<std::size_t>(i)]));
      EXPECT_EQ(elements_from<float>(copies.component(i)), (Floats{1, 2}));
    }
    const auto back = strategy.extended().broadcast_to(copies.value(), "cpu:0");
    EXPECT_EQ(elements_of<float>(back.value()), (Floats{1, 2}));
  });
}

TEST_F(OnGpus, ring_uses_host_memory) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  strategy.run([](ReplicaContext& replica) {
    const Tensor sum = replica.all_reduce("SUM", tensor_of(replica, Floats{1, 2}), {.implementation = "RING"});
    EXPECT_EQ(sum.device(), replica.devices().front());
    EXPECT_EQ(elements_from<float>(sum), (Floats{2, 4}));
  });
}

TEST_F(OnGpus, reduction_to_one_device_works_on_any) {
  const std::vector<std::optional<Device>> places{std::nullopt, gpu(1), Device{}};
  for (const std::optional<Device>& place : places) {
    const auto add = [](std::span<const ConstTensorView> values, TensorView sum) {
      reduce_local(values, std::span(&sum, 1), ReduceOp::sum);
    };
    const std::vector<AccumulationFunction> functions{nullptr, add};
    for (const auto& function : functions) {
      MirroredStrategy strategy({"gpu:0", "gpu:0#1"}, std::make_shared<ReductionToOneDevice>(place, function));
      EXPECT_EQ(elements_of<float>(strategy.reduce("SUM", values_of(strategy))), total_of(strategy));
      EXPECT_EQ(elements_of<float>(strategy.reduce("MEAN", values_of(strategy))), (Floats{1.5F, 2}));
      const auto there = strategy.extended().reduce_to("SUM", values_of(strategy), "gpu:1");
      EXPECT_EQ(elements_from<float>(there.value()), total_of(strategy));
    }
  }
  expect_error(Code::unavailable, {"ReductionToOneDevice", "gpu:4"}, [] { ReductionToOneDevice ops(gpu(4)); });
}

TEST_F(OnGpus, reduce_local_adds_values_of_one_gpu_on_it_and_others_on_the_host) {
  const Tensor a = Tensor::from(Floats{1, 2}).to(gpu(0));
  const Tensor b = Tensor::from(Floats{3, 4}).to(gpu(0));
  const Tensor c = Tensor::from(Floats{5, 6}).to(gpu(1));
  const auto sum_of = [](const std::vector<ConstTensorView>& values, Device place) {
    Tensor sum(DType::f32, Shape{2}, nullptr, place);
    const TensorView output = sum.view();
    reduce_local(values, std::span(&output, 1), ReduceOp::sum);
    return elements_from<float>(sum);
  };
  EXPECT_EQ(sum_of({a.view(), b.view()}, gpu(0)), (Floats{4, 6}));
  EXPECT_EQ(sum_of({a.view(), b.view()}, Device{}), (Floats{4, 6}));
  EXPECT_EQ(sum_of({a.view(), b.view(), c.view()}, gpu(1)), (Floats{9, 12}));
}

}  // namespace
}  // namespace lockstep::test
