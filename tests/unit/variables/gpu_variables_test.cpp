// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Variables with copies on GPUs: which copies are read and written in which context, and from which devices.

#include "support/placed_bytes.hpp"
#include "unit/strategy/contract.hpp"

#include <cstdint>
#include <source_location>
#include <sstream>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Copies = std::vector<Floats>;

/// `copy` as often as the strategy has replicas on this rank.
Copies all(Strategy& strategy, const Floats& copy) {
  return Copies(static_cast<std::size_t>(strategy.communicator().local_replicas()), copy);
}

TEST_P(StrategyContract, a_variable_has_a_copy_on_each_replicas_device) {
  on_every_rank([](Strategy& strategy) {
    const auto devices = strategy.extended().worker_devices();
    const std::vector<Tensor> initials{Tensor::from(Floats{1, 2}), Tensor::from(Floats{1, 2}).to(gpu(1))};
    for (const Tensor& initial : initials) {
      const Variable v = strategy.variable(initial);
      EXPECT_EQ(copies_from<float>(v), all(strategy, {1, 2}));
      for (int i = 0; i < v.component_count(); ++i)
        EXPECT_TRUE(same_place(v.component(i).device(), devices[static_cast<std::size_t>(i)]));
    }
    const Variable first_ranks =
        strategy.variable(Tensor::from(Floats(1, static_cast<float>(strategy.communicator().rank()))));
    EXPECT_EQ(copies_from<float>(first_ranks), all(strategy, {0}));
  });
}

TEST_F(OnGpus, a_variable_is_read_on_its_device_and_to_any_device) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto v = strategy.variable<float>(Floats{1, 2}, {.name = "v"});
  strategy.run([&](ReplicaContext& replica) {
    const Tensor mine = v.read();
    EXPECT_EQ(mine.device(), replica.devices().front());
    EXPECT_EQ(v.view().device, replica.devices().front());
    EXPECT_EQ(v.values(), (Floats{1, 2}));
  });
  EXPECT_EQ(v.read().device(), gpu(0));
  EXPECT_EQ(v.values(), (Floats{1, 2}));
  Tensor there(DType::f32, Shape{2}, nullptr, gpu(1));
  v.read_to(there.view());
  EXPECT_EQ(elements_from<float>(there), (Floats{1, 2}));
  EXPECT_EQ((reading(v) * 2.0F).elements(), (Floats{2, 4}));
  std::ostringstream text;
  text << v;
  EXPECT_EQ(text.str(),
            "MirroredVariable:{0: <Variable 'v:0' shape=[2] dtype=f32, value=[1, 2]>, "
            "1: <Variable 'v/replica_1:0' shape=[2] dtype=f32, value=[1, 2]>}");
}

TEST_F(OnGpus, values_are_added_and_subtracted_on_the_gpu_of_a_copy) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto v = strategy.variable<float>({1, 2});
  const auto launches = gpus_.cuda().calls().count("compute_elementwise");
  v.assign_sub({0.5, 0.5});
  v.assign_add(Tensor::from({1.0F, 2.0F}).to(gpu(1)));
  EXPECT_EQ(gpus_.cuda().calls().count("compute_elementwise") - launches, 4);
  EXPECT_EQ(copies_from<float>(v), all(strategy, {1.5, 3.5}));
  strategy.run([&](ReplicaContext& replica) { EXPECT_EQ(v.device(), replica.devices().front()); });
  EXPECT_EQ(v.device(), gpu(0));
}

TEST_F(OnGpus, spans_of_a_variables_copies_are_refused) {
  MirroredStrategy strategy({"gpu:0", "cpu:0"});
  const auto v = strategy.variable<float>(Floats{1}, {.name = "v"});
  expect_error(Code::failed_precondition, {"elements", "\"v\" is on gpu:0", "read_to()", "to(Device{})"},
               [&] { (void)v.elements(); });
  expect_error(Code::failed_precondition, {"updatable_component", "\"v\" is on gpu:0", "TensorView"},
               [&] { strategy.extended().update(v, [](const auto& copy) { (void)copy.updatable_component(); }); });
  // copies on hosts are unchanged
  strategy.run([&](ReplicaContext& replica) {
    if (replica.local_replica() == 0) return;
    EXPECT_EQ(v.elements().size(), 1U);
  });
}

TEST_P(StrategyContract, writes_outside_of_steps_go_to_all_copies_from_anywhere) {
  on_every_rank([](Strategy& strategy) {
    const auto v = strategy.variable<float>(Floats{0, 0});
    v.assign(Floats{1, 2});
    EXPECT_EQ(copies_from<float>(v), all(strategy, {1, 2}));
    v.assign_add(Tensor::from(Floats{1, 1}).to(gpu(1)));
    EXPECT_EQ(copies_from<float>(v), all(strategy, {2, 3}));
    v.assign_sub(Tensor::from(Floats{2, 1}).to(gpu(0)));
    EXPECT_EQ(copies_from<float>(v), all(strategy, {0, 2}));
    v.assign_add(v);
    EXPECT_EQ(copies_from<float>(v), all(strategy, {0, 4}));
    const auto w = strategy.variable<float>(Floats{7, 8});
    v.assign(w);
    EXPECT_EQ(copies_from<float>(v), all(strategy, {7, 8}));
  });
}

TEST_P(StrategyContract, writes_in_a_step_apply_the_aggregate_to_all_copies) {
  on_every_rank([](Strategy& strategy) {
    const auto n = static_cast<float>(strategy.num_replicas_in_sync());
    const auto write = [&](VariableAggregation aggregation, auto how, bool on_device) {
      const auto v = strategy.variable<float>(Floats{1}, aggregated_by(aggregation));
      strategy.run([&](ReplicaContext& replica) {
        const Floats mine{static_cast<float>(replica.replica_id_in_sync_group() + 1)};
        on_device ? how(v, tensor_of(replica, mine)) : how(v, Tensor::from(mine));
      });
      const Copies found = copies_from<float>(v);
      EXPECT_EQ(found, all(strategy, found.front()));
      return found.front().front();
    };
    const auto assign = [](const auto& v, const Tensor& value) { v.assign(value); };
    const auto add = [](const auto& v, const Tensor& value) { v.assign_add(value); };
    const auto subtract = [](const auto& v, const Tensor& value) { v.assign_sub(value); };
    for (const bool on_device : {true, false}) {
      EXPECT_EQ(write(VariableAggregation::sum, assign, on_device), n * (n + 1) / 2);
      EXPECT_EQ(write(VariableAggregation::sum, add, on_device), 1 + n * (n + 1) / 2);
      EXPECT_EQ(write(VariableAggregation::mean, subtract, on_device), 1 - (n + 1) / 2);
      EXPECT_EQ(write(VariableAggregation::only_first_replica, add, on_device), 2.0F);
    }
  });
}

TEST_F(OnGpus, narrow_floats_are_added_wide_and_integers_wrap) {
  MirroredStrategy strategy({"gpu:0", "gpu:0#1"});
  const auto narrow = strategy.variable<BFloat16>(Tensor::from(std::vector<BFloat16>{BFloat16(256.0F)}));
  narrow.assign_add(std::vector<BFloat16>{BFloat16(3.0F)});
  for (const auto& copy : copies_from<BFloat16>(narrow)) EXPECT_EQ(static_cast<float>(copy[0]), 260.0F);
  const auto bytes = strategy.variable<std::uint8_t>(std::vector<std::uint8_t>{250});
  bytes.assign_add(std::vector<std::uint8_t>{10});
  EXPECT_EQ(copies_from<std::uint8_t>(bytes).back(), std::vector<std::uint8_t>{4});
}

TEST_P(StrategyContract, variables_synchronized_on_read_join_their_copies) {
  on_every_rank([](Strategy& strategy) {
    const auto n = static_cast<float>(strategy.num_replicas_in_sync());
    const auto make = [&](VariableAggregation aggregation) {
      return strategy.sync_on_read_variable<float>(Floats{0, 0}, {.name = "r", .aggregation = aggregation});
    };
    const auto sum = make(VariableAggregation::sum);
    const auto mean = make(VariableAggregation::mean);
    const auto first = make(VariableAggregation::only_first_replica);
    strategy.run([&](ReplicaContext& replica) {
      const auto id = static_cast<float>(replica.replica_id_in_sync_group());
      sum.assign_add(tensor_of(replica, Floats{id + 1, 1}));
      mean.assign(Floats{id + 1, 2});
      first.assign(Floats{id + 5, 3});
    });
    EXPECT_EQ(sum.values(), (Floats{n * (n + 1) / 2, n}));
    EXPECT_EQ(mean.values(), (Floats{(n + 1) / 2, 2}));
    EXPECT_EQ(first.values(), (Floats{5, 3}));
    EXPECT_TRUE(same_place(sum.read().device(), strategy.extended().worker_devices()[0]));
    EXPECT_EQ(elements_from<float>(sum.read()), (Floats{n * (n + 1) / 2, n}));
    sum.assign(Floats{n, 2 * n});  // divided over the copies
    EXPECT_EQ(copies_from<float>(sum), all(strategy, {1, 2}));
    EXPECT_EQ(elements_of<float>(strategy.reduce(ReduceOp::max, sum)), (Floats{1, 2}));
  });
}

TEST_P(StrategyContract, updates_get_views_of_the_copies) {
  on_every_rank([](Strategy& strategy) {
    const Variable v = strategy.variable(Tensor::from(Floats{0, 0}));
    const auto devices = strategy.extended().worker_devices();
    const auto deltas = strategy.run([](ReplicaContext& replica) {
      return tensor_of(replica, Floats{static_cast<float>(replica.replica_id_in_sync_group()), 1});
    });
    strategy.extended().update(
        v, [](const Variable& own, const Tensor& delta) { copy(own.updatable_component(), delta.view()); }, deltas);
    const int first = strategy.communicator().layout().first(strategy.communicator().rank());
    for (int i = 0; i < v.component_count(); ++i)
      EXPECT_EQ(copies_from<float>(v)[static_cast<std::size_t>(i)], (Floats{static_cast<float>(first + i), 1}));
    const auto seen =
        strategy.extended().update(v, [](const Variable& own) { return own.updatable_component().device; });
    for (int i = 0; i < seen.size(); ++i)
      EXPECT_TRUE(same_place(seen.component(i), devices[static_cast<std::size_t>(i)]));
    strategy.run([&](ReplicaContext& replica) {
      replica.update(v, [&](const Variable& own) { own.assign(tensor_of(replica, Floats{9, 9})); });
    });
    EXPECT_EQ(copies_from<float>(v), all(strategy, {9, 9}));
  });
}

TEST_P(StrategyContract, rows_are_scattered_to_all_copies_from_anywhere) {
  on_every_rank([](Strategy& strategy) {
    const auto n = static_cast<float>(strategy.num_replicas_in_sync());
    const Variable v = strategy.variable(tensor({0, 0, 0, 0}, Shape{2, 2}), aggregated_by(VariableAggregation::sum));
    v.scatter_add(slices({1}, {1, 2}, 2));
    EXPECT_EQ(copies_from<float>(v), all(strategy, {0, 0, 1, 2}));
    const IndexedSlices host = slices({0, 0}, {3, 4, 1, 1}, 2);
    v.scatter_update({host.values.to(gpu(1)), host.indices.to(gpu(1)), 2});
    EXPECT_EQ(copies_from<float>(v), all(strategy, {1, 1, 1, 2}));
    strategy.run([&](ReplicaContext& replica) {
      const IndexedSlices mine = slices({1}, {1, 1}, 2);
      const Device place = replica.devices().front();
      v.scatter_add({mine.values.to(place), mine.indices.to(place), 2});
    });
    EXPECT_EQ(copies_from<float>(v), all(strategy, {1, 1, 1 + n, 2 + n}));
    expect_error(Code::invalid_argument, {"index 5"}, [&] {
      const IndexedSlices wrong = slices({5}, {1, 1}, 2);
      v.scatter_add({wrong.values.to(gpu(0)), wrong.indices.to(gpu(0)), 2});
    });
  });
}

/// Replica r writes r rows, some in host memory and some on its device.
TEST_P(StrategyContract, rows_of_replicas_are_written_to_all_copies) {
  on_every_rank([](Strategy& strategy) {
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
      const IndexedSlices other = slices({static_cast<std::int64_t>(id % 4)}, {5, 6}, 4);
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

TEST_F(OnGpus, rows_are_written_by_kernels_with_the_bits_of_the_host) {
  constexpr std::int64_t rows = 5;
  constexpr std::int64_t columns = 3;
  std::vector<std::int64_t> indices;
  for (std::int64_t k = 0; k < 700; ++k) indices.push_back(k % 4 == 0 ? 1 : k * k % rows);
  const auto awkward = [](std::int64_t count, std::uint64_t seed) {
    const Bytes bytes = awkward_values(DType::bf16, count * columns, seed);
    Tensor tensor = Tensor::uninitialized(DType::bf16, Shape{count, columns});
    copy(tensor.view(), {bytes.data(), DType::bf16, tensor.shape(), Device{}});
    return tensor;
  };
  const Tensor initial = awkward(rows, 1);
  const IndexedSlices given{awkward(700, 2), Tensor::from(indices), rows};
  const IndexedSlices there{given.values.to(gpu(1)), given.indices.to(gpu(1)), rows};
  using Scatter = const Variable& (Variable::*)(const IndexedSlices&, std::source_location) const;
  for (const Scatter scatter :
       {&Variable::scatter_add, &Variable::scatter_sub, &Variable::scatter_mul, &Variable::scatter_div,
        &Variable::scatter_min, &Variable::scatter_max, &Variable::scatter_update}) {
    const Variable on_host = make_variable(initial);
    (on_host.*scatter)(given, std::source_location::current());
    MirroredStrategy strategy({"gpu:0", "gpu:1"});
    const Variable v = strategy.variable(initial);
    const int before = gpus_.cuda().calls().count("apply_sparse_update") + gpus_.cuda().calls().count("copy");
    (v.*scatter)(there, std::source_location::current());
    EXPECT_GT(gpus_.cuda().calls().count("apply_sparse_update") + gpus_.cuda().calls().count("copy"), before);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(read(v.component(i).view()), read(on_host.component(0).view())) << "copy " << i;
    }
  }
}

TEST_F(OnGpus, rows_of_all_replicas_are_divided_for_a_mean) {
  on_each_layout([](MirroredStrategy& strategy) {
    const auto n = static_cast<float>(strategy.num_replicas_in_sync());
    const Variable v = strategy.variable(tensor({0, 0, 0}, Shape{3, 1}), aggregated_by(VariableAggregation::mean));
    const Variable first =
        strategy.variable(tensor({0, 0, 0}, Shape{3, 1}), aggregated_by(VariableAggregation::only_first_replica));
    strategy.run([&](ReplicaContext& replica) {
      const std::int64_t id = replica.replica_id_in_sync_group();
      const IndexedSlices mine = slices({id % 3, 2}, {n, 2 * n}, 3);
      v.scatter_add({mine.values.to(replica.devices().front()), mine.indices, 3});
      first.scatter_sub(id == 0 ? mine : slices({1}, {9}, 3));
    });
    Floats expected{0, 0, 2 * n};
    for (std::int64_t id = 0; id < strategy.num_replicas_in_sync(); ++id)
      expected[static_cast<std::size_t>(id % 3)] += 1;
    EXPECT_EQ(copies_from<float>(v), all(strategy, expected));
    EXPECT_EQ(copies_from<float>(first), all(strategy, {-n, 0, -2 * n}));
  });
}

TEST_F(OnGpus, rows_may_be_the_variables_own) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const Variable v = strategy.variable(tensor({1, 2, 3}, Shape{3, 1}));
  v.scatter_add({v.component(0), Tensor::from(std::vector<std::int64_t>{2, 0, 1}), 3});
  EXPECT_EQ(copies_from<float>(v), all(strategy, {3, 5, 4}));
}

TEST_F(OnGpus, a_kernel_for_rows_that_fails_is_an_error) {
  MirroredStrategy strategy({"gpu:0"});
  const Variable v = strategy.variable(tensor({1, 2}, Shape{2, 1}));
  gpus_.cuda().calls().fail("apply_sparse_update", 1, detail::cuda::Status::launch_failure);
  expect_error(Code::unavailable, {"rows: the kernel"}, [&] { v.scatter_add(slices({1}, {1}, 2)); });
}

TEST_F(OnGpus, sparse_rows_become_dense_on_their_device) {
  const IndexedSlices here = slices({2, 0, 2}, {1, 2, 3, 4, 10, 20}, 4);
  const Tensor dense = to_dense({here.values.to(gpu(1)), here.indices.to(gpu(1)), 4});
  EXPECT_EQ(dense.device(), gpu(1));
  EXPECT_EQ(elements_from<float>(dense), (Floats{3, 4, 0, 0, 11, 22, 0, 0}));
  EXPECT_EQ(gpus_.cuda().calls().count("apply_sparse_update"), 1);
  expect_error(Code::invalid_argument, {"to_dense", "index 4", "4 rows"}, [&] {
    const IndexedSlices wrong = slices({4}, {1, 2}, 4);
    (void)to_dense({wrong.values.to(gpu(1)), wrong.indices.to(gpu(1)), 4});
  });
}

TEST_F(OnGpus, variables_in_host_memory_are_used_as_on_hosts) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto counter = strategy.variable<std::int64_t>(0, {.name = "steps", .in_host_memory = true});
  strategy.run([&](ReplicaContext& replica) {
    replica.update(counter, [](const auto& steps) { ++steps.updatable_component().front(); });
    EXPECT_EQ(counter.read().device(), Device{});
  });
  EXPECT_EQ(counter.elements().front(), 1);
  const Mean loss(strategy, "loss");
  strategy.run([&](ReplicaContext& replica) { loss.update(static_cast<double>(replica.replica_id_in_sync_group())); });
  EXPECT_EQ(loss.result(), 0.5);
}

TEST_F(OnGpus, variables_are_made_in_steps_and_in_one_strategy_at_a_time) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto v = strategy.run([&] { return make_variable<float>(Floats{3}, {.name = "made"}); });
  EXPECT_EQ(copies_from<float>(v), all(strategy, {3}));
  const Variable plain = make_variable(Tensor::from(Floats{1}));
  EXPECT_EQ(plain.component(0).device(), Device{});
  strategy.run([&] { EXPECT_EQ(elements_of<float>(plain.read()), Floats{1}); });
}

}  // namespace
}  // namespace lockstep::test
