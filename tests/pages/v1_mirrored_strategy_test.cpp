// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.compat.v1.distribute.MirroredStrategy, TensorFlow 2.4.

#include "pages/samples.hpp"

#include <optional>

namespace lockstep::test {
namespace {

constexpr const char* two_copies_of_one =
    "MirroredVariable:{0: <Variable 'Variable:0' shape=[] dtype=f32, value=1>, "
    "1: <Variable 'Variable/replica_1:0' shape=[] dtype=f32, value=1>}";

TEST(V1MirroredStrategyPage, a_variable_made_in_scope) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const Scope scope = strategy.scope();
  const auto x = make_variable<float>(1.0F);
  EXPECT_EQ(printed(x), two_copies_of_one);
}

TEST(V1MirroredStrategyPage, a_variable_made_by_a_function) {
  std::optional<MirroredVariable<float>> x;
  const auto create_variable = [&] {
    if (!x) x = make_variable<float>(1.0F);
    return *x;
  };
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const Scope scope = strategy.scope();
  (void)create_variable();
  EXPECT_EQ(printed(*x), two_copies_of_one);
  EXPECT_EQ(create_variable(), *x);
}

TEST(V1MirroredStrategyPage, a_custom_training_loop) {
  v1::MirroredStrategy my_strategy({"cpu:0", "cpu:1"});
  const Scope scope = my_strategy.scope();
  const auto dist_dataset = my_strategy.experimental_distribute_dataset(Dataset<Tensor>::range(10).batch(4));
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::int64_t total_result = 0;
    for (const auto& x : dist_dataset) {
      total_result += my_strategy.reduce(ReduceOp::sum, my_strategy.run(sum_of, x));
    }
    EXPECT_EQ(total_result, 45);
  }
}

TEST(V1MirroredStrategyPage, cluster_resolver) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  EXPECT_EQ(strategy.cluster_resolver(), nullptr);
}

TEST(V1MirroredStrategyPage, experimental_distribute_dataset) {
  constexpr std::int64_t global_batch_size = 2;
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto dataset = Dataset<Tensor>::range(4).batch(global_batch_size);
  std::vector<std::string> result;
  for (const auto& x : strategy.experimental_distribute_dataset(dataset)) {
    EXPECT_EQ(x.component(0).shape(), Shape{1});
    EXPECT_EQ(x.component(0).dtype(), DType::i64);
    result.push_back(printed(strategy.run(doubled, x)));
  }
  EXPECT_EQ(result, (std::vector<std::string>{"PerReplica:{0: [0], 1: [2]}", "PerReplica:{0: [4], 1: [6]}"}));
}

TEST(V1MirroredStrategyPage, experimental_make_numpy_dataset) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const std::vector<float> numpy_input(10, 1.0F);
  const v1::Session session;
  const auto dataset = strategy.experimental_make_numpy_dataset(numpy_input, &session);
  EXPECT_EQ(all_of(strategy, dataset.batch(5)), numpy_input);
}

TEST(V1MirroredStrategyPage, make_input_fn_iterator) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto input_fn = [](const InputContext& input_context) {
    return endless_ones()
        .batch(input_context.get_per_replica_batch_size(6))
        .shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
  };
  const Scope scope = strategy.scope();
  auto iterator = strategy.make_input_fn_iterator(input_fn);
  iterator.initialize();
  const auto replica_fn = [](const Tensor& input) { return input.shape()[0]; };
  EXPECT_EQ(printed(strategy.experimental_run(replica_fn, iterator)), "PerReplica:{0: 3, 1: 3}");
}

TEST(V1MirroredStrategyPage, reduce) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto step_fn = [] { return get_replica_context()->replica_id_in_sync_group(); };
  const auto per_replica_result = strategy.run(step_fn);
  EXPECT_EQ(strategy.reduce("SUM", per_replica_result, std::nullopt), 1);
}

TEST(V1MirroredStrategyPage, reduce_and_the_devices_of_its_values) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto step_fn = [] {
    const ReplicaContext* replica = get_replica_context();
    Tensor i(DType::i32, Shape{}, nullptr, replica->devices().front());
    i.elements<std::int32_t>().front() = replica->replica_id_in_sync_group();
    return i;
  };
  const auto per_replica_result = strategy.run(step_fn);
  const auto local_results = strategy.experimental_local_results(per_replica_result);
  EXPECT_EQ(to_string(local_results[0].device()), "cpu:0");
  EXPECT_EQ(to_string(local_results[1].device()), "cpu:1");
  const Tensor total = strategy.reduce("SUM", per_replica_result, std::nullopt);
  EXPECT_EQ(printed(total), "1");
  EXPECT_EQ(total.dtype(), DType::i32);
  EXPECT_EQ(to_string(total.device()), "cpu:0");
}

TEST(V1MirroredStrategyPage, reduce_without_and_with_axis) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const PerReplica<std::vector<float>> per_replica_result({{0, 1, 2, 3}, {4, 5, 6, 7}});
  EXPECT_EQ(strategy.reduce("sum", per_replica_result, std::nullopt), (std::vector<float>{0 + 4, 1 + 5, 2 + 6, 3 + 7}));
  EXPECT_EQ(strategy.reduce("sum", per_replica_result, 0), 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7);
}

TEST(V1MirroredStrategyPage, reduce_of_a_last_partial_batch) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const PerReplica<std::vector<float>> last({{0, 1, 2, 3}, {4, 5}});
  expect_error(Code::invalid_argument, {"shape"}, [&] { (void)strategy.reduce(ReduceOp::sum, last); });
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, last, 0), 2.5F);
}

TEST(V1MirroredStrategyPage, run_with_a_constant) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto replica_fn = [](float input) { return input * 2.0F; };
  EXPECT_EQ(printed(strategy.run(replica_fn, 3.0F)), "PerReplica:{0: 6, 1: 6}");
}

/// The page prints a plain 4, since both replicas returned one Python object; here types decide, and each replica has
/// its own.
TEST(V1MirroredStrategyPage, run_with_distributed_values) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto distributed_values = strategy.experimental_distribute_values_from_function(
      [](const ValueContext& value_context) { return value_context.num_replicas_in_sync; });
  const auto replica_fn2 = [](int input) { return input * 2; };
  EXPECT_EQ(printed(strategy.run(replica_fn2, distributed_values)), "PerReplica:{0: 4, 1: 4}");
}

TEST(V1MirroredStrategyPage, run_with_all_reduce) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto distributed_values = strategy.experimental_distribute_values_from_function(
      [](const ValueContext& value_context) { return value_context.replica_id_in_sync_group; });
  const auto replica_fn = [](int input) { return get_replica_context()->all_reduce("sum", input); };
  EXPECT_EQ(printed(strategy.run(replica_fn, distributed_values)), "PerReplica:{0: 1, 1: 1}");
}

TEST(V1MirroredStrategyPage, scope) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto mirrored_variable = [&] {
    const Scope scope = strategy.scope();
    return make_variable<float>(1.0F);
  }();
  EXPECT_EQ(printed(mirrored_variable), two_copies_of_one);
  const auto regular_variable = make_variable<float>(1.0F);
  EXPECT_EQ(printed(regular_variable), "<Variable 'Variable:0' shape=[] dtype=f32, value=1>");
}

TEST(V1MirroredStrategyPage, update_config_proto) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const v1::Config config;
  EXPECT_NE(strategy.update_config_proto(config), config);
  EXPECT_EQ(config, v1::Config{});
}

}  // namespace
}  // namespace lockstep::test
