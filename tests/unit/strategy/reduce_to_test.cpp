// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_to and batch_reduce_to of dense and sparse values, and broadcast_to.

#include "unit/strategy/strategies.hpp"

#include <algorithm>
#include <variant>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

PerReplica<IndexedSlices> two_replicas() {
  return PerReplica<IndexedSlices>({slices({1}, {1, 2}, 5), slices({1, 3}, {3, 4, 5, 6}, 5)});
}

TEST(SparseReduceTo, concatenates_the_rows_in_replica_order) {
  MirroredStrategy strategy = mirrored(2);
  const Mirrored<IndexedSlices> sum = strategy.extended().reduce_to("SUM", two_replicas(), two_replicas());
  ASSERT_EQ(sum.size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(elements_of<std::int64_t>(sum.component(i).indices), (std::vector<std::int64_t>{1, 1, 3}));
    EXPECT_EQ(elements_of<float>(sum.component(i).values), (Floats{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(sum.component(i).rows, 5);
  }
  EXPECT_NE(sum.component(0).values.data(), sum.component(1).values.data());
  const Mirrored<IndexedSlices> mean = strategy.extended().reduce_to("MEAN", two_replicas(), "cpu:0");
  EXPECT_EQ(mean.size(), 1);
  EXPECT_EQ(elements_of<float>(mean.value().values), (Floats{0.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(elements_of<float>(to_dense(strategy.reduce("SUM", two_replicas()))),
            (Floats{0, 0, 4, 6, 0, 0, 5, 6, 0, 0}));
}

TEST(SparseReduceTo, is_the_same_on_every_layout_and_with_replicas_that_have_no_rows) {
  for (const std::vector<int>& layout : {std::vector<int>{3}, {2, 1}, {1, 1, 1}}) {
    on_workers(layout, [](Strategy& strategy) {
      const auto value = strategy.run([](ReplicaContext& r) {
        const int id = r.replica_id_in_sync_group();
        return id == 1 ? slices({}, {}, 4) : slices({id, 0}, {static_cast<float>(id + 1), 10}, 4);
      });
      const auto sum = strategy.extended().reduce_to("SUM", value, value);
      EXPECT_EQ(elements_of<std::int64_t>(sum.value().indices), (std::vector<std::int64_t>{0, 0, 2, 0}));
      EXPECT_EQ(elements_of<float>(sum.value().values), (Floats{1, 10, 3, 10}));
    });
  }
}

TEST(SparseReduceTo, gives_the_mean_of_integers_in_f64_and_rounds_narrow_floats_once) {
  MirroredStrategy strategy = mirrored(2);
  const auto of = [](const Tensor& values) {
    return IndexedSlices{values, Tensor::from(std::vector<std::int64_t>{0}), 1};
  };
  const PerReplica<IndexedSlices> ints({of(Tensor::from(std::vector<int>{3})), of(Tensor::from(std::vector<int>{4}))});
  EXPECT_EQ(elements_of<double>(strategy.reduce("MEAN", ints).values), (std::vector<double>{1.5, 2}));
  const PerReplica<IndexedSlices> halves(
      {of(Tensor::from(std::vector<Float16>{Float16(3)})), of(Tensor::from(std::vector<Float16>{Float16(1)}))});
  EXPECT_EQ(float(strategy.reduce("MEAN", halves).values.elements<Float16>()[0]), 1.5F);
}

TEST(SparseReduceTo, refuses_incompatible_rows_on_all_ranks) {
  MirroredStrategy strategy = mirrored(2);
  const auto reduce = [&](const IndexedSlices& a, const IndexedSlices& b, ReduceOp op = ReduceOp::sum) {
    const PerReplica<IndexedSlices> value({a, b});
    (void)strategy.extended().reduce_to(op, value, value);
  };
  expect_error(Code::invalid_argument, {"reduce_to", "6 rows on replica 1", "5 on replica 0"},
               [&] { reduce(slices({1}, {1}, 5), slices({1}, {1}, 6)); });
  expect_error(Code::invalid_argument, {"[1, 2] on replica 1", "[1, 1] on replica 0"},
               [&] { reduce(slices({1}, {1}, 5), slices({1}, {1, 2}, 5)); });
  expect_error(Code::invalid_argument, {"index 5", "5 rows"},
               [&] { reduce(slices({5}, {1}, 5), slices({1}, {1}, 5)); });
  expect_error(Code::invalid_argument, {"max of IndexedSlices", "to_dense"},
               [&] { reduce(slices({1}, {1}, 5), slices({1}, {1}, 5), ReduceOp::max); });
  on_workers({1, 1}, [](Strategy& two) {
    const std::int64_t rows = 5 + two.communicator().rank();
    const auto value = two.run([&] { return slices({1}, {1}, rows); });
    expect_error(Code::invalid_argument, {"6 rows on replica 1", "5 on replica 0"},
                 [&] { (void)two.extended().reduce_to("SUM", value, value); });
    EXPECT_EQ(two.reduce("SUM", two.run([] { return 1; })), 2);
  });
}

TEST(BatchReduceTo, takes_dense_and_sparse_values_in_any_order) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<Tensor> y({Tensor::scalar(1.0F), Tensor::scalar(2.0F)});
  const auto x = two_replicas();
  const std::vector<ReducePair> pairs{{y, y}, {x, x}, {y, "cpu:0"}};
  const std::vector<ReducedValue> sums = strategy.extended().batch_reduce_to("SUM", pairs);
  ASSERT_EQ(sums.size(), 3U);
  EXPECT_EQ(elements_of<float>(std::get<Mirrored<Tensor>>(sums[0]).component(1)), (Floats{3}));
  const auto& sparse = std::get<Mirrored<IndexedSlices>>(sums[1]);
  EXPECT_EQ(elements_of<float>(to_dense(sparse.component(1))), (Floats{0, 0, 4, 6, 0, 0, 5, 6, 0, 0}));
  EXPECT_EQ(std::get<Mirrored<Tensor>>(sums[2]).size(), 1);
  EXPECT_TRUE(strategy.extended().batch_reduce_to("SUM", std::vector<ReducePair>{}).empty());
  const std::vector<std::pair<PerReplica<IndexedSlices>, Device>> only_sparse{{x, Device{}}};
  EXPECT_EQ(strategy.extended().batch_reduce_to("SUM", only_sparse).front().value().rows, 5);
}

TEST(BatchReduceTo, gives_the_same_bits_however_it_is_packed) {
  MirroredStrategy strategy = mirrored(3);
  std::vector<ReducePair> pairs;
  for (int k = 0; k < 6; ++k) {
    const PerReplica<Tensor> value({Tensor::from(Floats(8, 0.1F * static_cast<float>(k))),
                                    Tensor::from(Floats(8, 1e8F)), Tensor::from(Floats(8, 3.3F))});
    pairs.push_back({value, value});
  }
  const auto plain = strategy.extended().batch_reduce_to("SUM", pairs);
  const auto packed = strategy.extended().batch_reduce_to("SUM", pairs, {.bytes_per_pack = 40});
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    EXPECT_EQ(elements_of<float>(std::get<Mirrored<Tensor>>(plain[k]).value()),
              elements_of<float>(std::get<Mirrored<Tensor>>(packed[k]).value()));
  }
}

TEST(ReduceTo, of_one_shared_value_has_a_mean_but_no_sum) {
  MirroredStrategy strategy = mirrored(2);
  const Mirrored<float> mirrored_value({3, 3});
  EXPECT_EQ(strategy.extended().reduce_to("MEAN", mirrored_value, mirrored_value).component(1), 3.0F);
  EXPECT_EQ(strategy.extended().reduce_to("MEAN", Floats{1, 2}, "cpu:1").value(), (Floats{1, 2}));
  const auto variable = strategy.variable<float>(3.0F);
  const Mirrored<Tensor> read = strategy.extended().reduce_to("MEAN", variable, variable);
  EXPECT_EQ(elements_of<float>(read.component(1)), (Floats{3}));
  EXPECT_NE(read.component(0).data(), read.component(1).data());
  expect_error(Code::invalid_argument, {"reduce_to: the sum of a mirrored value"},
               [&] { (void)strategy.extended().reduce_to("SUM", mirrored_value, variable); });
  const Tensor plain = Tensor::scalar(1.0F);
  expect_error(Code::invalid_argument, {"the sum of a plain value"},
               [&] { (void)strategy.extended().batch_reduce_to("SUM", std::vector<ReducePair>{{plain, variable}}); });
  OneDeviceStrategy one;
  EXPECT_EQ(elements_of<float>(one.extended().reduce_to("SUM", plain, "cpu:0").value()), (Floats{1}));
}

TEST(ReduceTo, with_an_invalid_device_name_is_refused_on_all_ranks) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const bool wrong = strategy.communicator().rank() == 0;
    const auto x = strategy.run([] { return 1.0F; });
    expect_error(wrong ? Code::invalid_argument : Code::unavailable, {"reduce_to: the destination", "chair:0"},
                 [&] { (void)strategy.extended().reduce_to("SUM", x, wrong ? "chair:0" : "cpu:0"); });
    EXPECT_EQ(strategy.extended().reduce_to("SUM", x, "cpu:0").value(), 2.0F);
  });
}

TEST(ReduceTo, with_the_name_of_a_device_of_another_task_is_refused_on_all_ranks) {
  on_workers({1, 2}, [](Strategy& strategy) {
    StrategyExtended& extended = strategy.extended();
    const int rank = strategy.communicator().rank();
    const auto x = strategy.run([] { return 1.0F; });
    const auto name = [](int task) { return "/job:worker/replica:0/task:" + std::to_string(task) + "/device:CPU:0"; };
    expect_error(rank == 0 ? Code::invalid_argument : Code::unavailable,
                 {"reduce_to: the destination", name(1), "another task", "this rank is task 0 of job worker"},
                 [&] { (void)extended.reduce_to("SUM", x, name(1)); });
    expect_error(rank == 1 ? Code::invalid_argument : Code::unavailable,
                 {"broadcast_to: the destination", name(0), "another task"},
                 [&] { (void)extended.broadcast_to(Tensor::scalar(1.0F), name(0)); });
    EXPECT_EQ(extended.reduce_to("SUM", x, name(rank)).value(), 3.0F);
    EXPECT_EQ(extended.reduce_to("SUM", x, "/job:localhost/replica:0/task:0/device:CPU:0").value(), 3.0F);
  });
}

TEST(ReduceTo, compares_its_destinations_between_ranks) {
  for (const std::vector<int>& layout : {std::vector<int>{1, 1}, {2, 2}, {1, 2}}) {
    on_workers(layout, [](Strategy& strategy) {
      StrategyExtended& extended = strategy.extended();
      const bool is_first = strategy.communicator().rank() == 0;
      const auto x = strategy.run([] { return Tensor::scalar(1.0F); });
      const auto sparse = strategy.run([] { return slices({1}, {1, 2}, 5); });
      const Variable variable = strategy.variable<float>(1.0F);
      const Destinations other_cpu = is_first ? Destinations("cpu:0") : Destinations("cpu:1");
      const Destinations other_kind = is_first ? Destinations("cpu:0") : Destinations(x);
      const auto expect_mismatch = [](const std::vector<std::string>& texts, const auto& call) {
        expect_error(Code::mismatch, texts, call);
      };
      expect_mismatch({"rank 0 calls all_reduce sum", "with destination cpu:0", "with destination cpu:1"},
                      [&] { (void)extended.reduce_to("SUM", x, other_cpu); });
      expect_mismatch({"with destination cpu:0", "with destination the devices of a value"},
                      [&] { (void)extended.reduce_to("SUM", x, other_kind); });
      expect_mismatch({"with destination cpu:0", "with destination cpu:1"},
                      [&] { (void)extended.reduce_to("SUM", sparse, other_cpu); });
      expect_mismatch({"broadcast", "with destination cpu:0", "with destination cpu:1"},
                      [&] { (void)extended.broadcast_to(Tensor::scalar(1.0F), other_cpu); });
      expect_mismatch({"with destinations 1 of cpu:0, 1 of cpu:1", "with destinations 2 of cpu:0"}, [&] {
        (void)extended.batch_reduce_to("SUM",
                                       std::vector{std::pair(x, "cpu:0"), std::pair(x, is_first ? "cpu:0" : "cpu:1")});
      });
      expect_mismatch({"with destinations 1 of cpu:0, 1 of cpu:1"}, [&] {
        (void)extended.batch_reduce_to("SUM", std::vector<ReducePair>{{x, "cpu:0"}, {x, is_first ? "cpu:0" : "cpu:1"}});
      });
      // equal after normalization
      const Destinations value = is_first ? Destinations(x) : Destinations(variable);
      EXPECT_EQ(extended.reduce_to("SUM", x, value).size(), strategy.experimental_local_results(x).size());
      const Destinations cpu_1 = is_first ? Destinations("CPU:1") : Destinations(Device{DeviceKind::cpu, 1});
      EXPECT_EQ(to_string(extended.reduce_to("SUM", x, cpu_1).component(0).device()), "cpu:1");
      const auto total = extended.reduce_to("SUM", x, "cpu:0");
      EXPECT_EQ(extended.reduce_to("SUM", x, total).size(), 1);
    });
  }
}

TEST(ReduceTo, compares_its_destinations_also_in_calls_with_options) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const auto x = strategy.run([] { return Tensor::scalar(1.0F); });
    const Destinations other = strategy.communicator().rank() == 0 ? Destinations("cpu:0") : Destinations("cpu:1");
    expect_error(Code::mismatch, {"with destination cpu:0", "with destination cpu:1"},
                 [&] { (void)strategy.extended().reduce_to("SUM", x, other, {.bytes_per_pack = 1}); });
  });
}

TEST(ReduceTo, gives_a_copy_on_each_device_on_which_the_destination_resides) {
  MirroredStrategy strategy = mirrored(2);
  StrategyExtended& extended = strategy.extended();
  const auto x = strategy.run([] { return Tensor::scalar(1.0F); });
  const auto devices_of = [](const Mirrored<Tensor>& copies) {
    std::vector<std::string> names;
    for (int i = 0; i < copies.size(); ++i) names.push_back(to_string(copies.component(i).device()));
    return names;
  };
  using Names = std::vector<std::string>;
  const auto on_second = extended.reduce_to("SUM", x, "cpu:1");
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", x, on_second)), Names{"cpu:1"});
  EXPECT_EQ(devices_of(extended.broadcast_to(Tensor::scalar(1.0F), on_second)), Names{"cpu:1"});
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", x, x.component(1))), Names{"cpu:1"});
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", x, get_strategy().variable<float>(1.0F))), Names{"cpu:0"});
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", x, strategy.variable<float>(1.0F))), (Names{"cpu:0", "cpu:1"}));
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", x, PerReplica<float>({1, 2}))), (Names{"cpu:0", "cpu:1"}));
  EXPECT_EQ(devices_of(extended.reduce_to("SUM", x, Mirrored<Tensor>({x.component(1), x.component(0)}))),
            (Names{"cpu:1", "cpu:0"}));
  EXPECT_EQ(extended.reduce_to("SUM", PerReplica<float>({1, 2}), on_second).size(), 1);
  const auto batch = extended.batch_reduce_to("SUM", std::vector{std::pair(x, on_second), std::pair(x, on_second)});
  EXPECT_EQ(devices_of(batch[1]), Names{"cpu:1"});
}

TEST(BatchReduceTo, reuses_the_memory_of_earlier_results) {
  for (const int count : {1, 3}) {
    MirroredStrategy strategy = mirrored(count);
    const PerReplica<Tensor> ones(count, 0, [](int) { return Tensor::from(Floats(5, 1.0F)); });
    const PerReplica<Tensor> twos(count, 0, [](int) { return Tensor::from(Floats(5, 2.0F)); });
    const std::vector pairs{std::pair(ones, ones), std::pair(twos, ones)};
    const auto places = [](const std::vector<Mirrored<Tensor>>& results) {
      std::vector<const void*> all;
      for (const auto& result : results) {
        for (int i = 0; i < result.size(); ++i) all.push_back(result.component(i).data());
      }
      return all;
    };
    const auto reduce = [&] { return strategy.extended().batch_reduce_to("SUM", pairs); };
    const auto first = places(reduce());
    const auto kept = reduce();
    EXPECT_EQ(places(kept), first);
    const auto other = reduce();
    for (const void* const place : places(other)) EXPECT_EQ(std::ranges::count(first, place), 0);
    EXPECT_EQ(elements_of<float>(kept.back().component(count - 1)), Floats(5, 2.0F * static_cast<float>(count)));
    EXPECT_EQ(elements_of<float>(other.front().component(count - 1)), Floats(5, static_cast<float>(count)));
  }
}

TEST(BatchReduceTo, does_not_change_results_that_outlive_the_strategy) {
  std::vector<Mirrored<Tensor>> results;
  {
    MirroredStrategy strategy = mirrored(2);
    const PerReplica<Tensor> ones(2, 0, [](int) { return Tensor::from(Floats(5, 1.0F)); });
    results = strategy.extended().batch_reduce_to("SUM", std::vector{std::pair(ones, ones)});
  }
  EXPECT_EQ(elements_of<float>(results.front().component(1)), Floats(5, 2.0F));
}

TEST(ReduceTo, of_a_variable_on_read_joins_its_copies_by_the_named_op) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const auto variable = strategy.sync_on_read_variable<int>(0, {.aggregation = VariableAggregation::sum});
    strategy.run([&](ReplicaContext& replica) { variable.assign(replica.replica_id_in_sync_group() + 1); });
    const Mirrored<Tensor> most = strategy.extended().reduce_to(ReduceOp::max, variable, variable);
    ASSERT_EQ(most.size(), strategy.communicator().local_replicas());
    EXPECT_EQ(elements_of<int>(most.component(most.size() - 1)), (std::vector<int>{3}));
    const auto sums = strategy.extended().batch_reduce_to("SUM", std::vector<ReducePair>{{variable, "cpu:0"}});
    EXPECT_EQ(elements_of<int>(std::get<Mirrored<Tensor>>(sums.front()).value()), (std::vector<int>{6}));
  });
}

TEST(BroadcastTo, puts_the_first_ranks_value_on_each_device) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(0.0F);
  const Tensor x = Tensor::from(Floats{1, 2});
  const Mirrored<Tensor> copies = strategy.extended().broadcast_to(x, variable);
  ASSERT_EQ(copies.size(), 2);
  EXPECT_EQ(elements_of<float>(copies.component(1)), (Floats{1, 2}));
  EXPECT_NE(copies.component(0).data(), x.data());
  EXPECT_EQ(strategy.extended().broadcast_to(3.0F, variable), 3.0F);
  on_workers({1, 2}, [](Strategy& workers) {
    const Floats mine(2, static_cast<float>(workers.communicator().rank() + 7));
    EXPECT_EQ(workers.extended().broadcast_to(mine, PerReplica<float>({1})).value(), (Floats{7, 7}));
  });
  expect_error(Code::failed_precondition, {"broadcast_to", "replica context"},
               [&] { strategy.run([&](ReplicaContext&) { (void)strategy.extended().broadcast_to(x, "cpu:0"); }); });
}

}  // namespace
}  // namespace lockstep::test
