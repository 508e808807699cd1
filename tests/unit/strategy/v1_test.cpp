// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The strategies of compat.v1. Methods that are deprecated there are deprecated here, too.

#include "unit/strategy/strategies.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace lockstep::test {
namespace {

using Rows = std::vector<std::vector<std::int64_t>>;

v1::MirroredStrategy v1_mirrored() { return v1::MirroredStrategy(std::vector<std::string>{"cpu:0", "cpu:1"}); }

Rows rows(const PerReplica<Tensor>& inputs) {
  Rows result;
  for (const Tensor& part : components(inputs)) result.push_back(elements_of<std::int64_t>(part));
  return result;
}

std::int64_t sum(const Tensor& x) {
  std::int64_t total = 0;
  for (const std::int64_t element : x.elements<std::int64_t>()) total += element;
  return total;
}

TEST(V1, iterators_must_be_initialized) {
  v1::MirroredStrategy strategy = v1_mirrored();
  auto iterator = strategy.make_dataset_iterator(Dataset<Tensor>::range(4).batch(2));
  const auto step = [&] { return strategy.experimental_run([](const Tensor& x) { return x; }, iterator); };
  expect_error(Code::failed_precondition, {"get_next", "initialize()"}, [&] { (void)step(); });
  iterator.initialize();
  EXPECT_EQ(rows(step()), (Rows{{0}, {1}}));
}

TEST(V1, dataset_iterators_divide_batches_and_start_over_when_initialized_again) {
  v1::MirroredStrategy strategy = v1_mirrored();
  auto iterator = strategy.make_dataset_iterator(Dataset<Tensor>::range(6).batch(4));
  for (int round = 0; round < 2; ++round) {
    iterator.initialize();
    EXPECT_EQ(rows(iterator.get_next()), (Rows{{0, 1}, {2, 3}}));
    EXPECT_EQ(rows(iterator.get_next()), (Rows{{4}, {5}}));
    expect_error(Code::out_of_range, {"get_next", "end", "initialize()"}, [&] { (void)iterator.get_next(); });
    expect_error(Code::out_of_range, {"end"}, [&] { (void)iterator.get_next(); });
  }
}

TEST(V1, datasets_without_batches_are_refused_with_advice_to_use_make_input_fn_iterator) {
  v1::MirroredStrategy strategy = v1_mirrored();
  expect_error(Code::invalid_argument, {"make_dataset_iterator", "batch", "make_input_fn_iterator"},
               [&] { (void)strategy.make_dataset_iterator(Dataset<Tensor>::range(4)); });
}

TEST(V1, input_fn_iterators_give_each_replica_the_next_element) {
  v1::MirroredStrategy strategy = v1_mirrored();
  int calls = 0;
  auto iterator = strategy.make_input_fn_iterator([&](const InputContext& context) {
    ++calls;
    EXPECT_EQ(context.num_replicas_in_sync(), 2);
    return Dataset<Tensor>::range(8).batch(context.get_per_replica_batch_size(4));
  });
  iterator.initialize();
  EXPECT_EQ(components(strategy.experimental_run(sum, iterator)), (std::vector<std::int64_t>{1, 5}));
  EXPECT_EQ(components(strategy.experimental_run(sum, iterator)), (std::vector<std::int64_t>{9, 13}));
  expect_error(Code::out_of_range, {"end"}, [&] { (void)strategy.experimental_run(sum, iterator); });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(components(strategy.experimental_run([](ReplicaContext& r) { return r.replica_id_in_sync_group(); })),
            (std::vector<int>{0, 1}));
}

TEST(V1, input_fn_iterators_end_at_the_first_step_that_cannot_feed_all) {
  v1::MirroredStrategy strategy = v1_mirrored();
  auto iterator =
      strategy.make_input_fn_iterator([](const InputContext&) { return Dataset<Tensor>::range(5).batch(2); });
  iterator.initialize();
  EXPECT_EQ(rows(iterator.get_next()), (Rows{{0, 1}, {2, 3}}));
  for (int i = 0; i < 2; ++i) {
    expect_error(Code::out_of_range, {"no further input for 2 replicas"}, [&] { (void)iterator.get_next(); });
  }
}

TEST(V1, input_fn_iterators_can_only_be_made_per_worker) {
  v1::MirroredStrategy strategy = v1_mirrored();
  expect_error(Code::invalid_argument, {"make_input_fn_iterator", "PER_REPLICA", "PER_WORKER"}, [&] {
    (void)strategy.make_input_fn_iterator([](const InputContext&) { return Dataset<Tensor>::range(5).batch(2); },
                                          InputReplicationMode::per_replica);
  });
}

TEST(V1, update_config_proto_gives_a_changed_copy) {
  const v1::Config config{.device_filters = {"a"}};
  const v1::Config before = config;
  const v1::Config updated = v1_mirrored().update_config_proto(config);
  EXPECT_TRUE(updated.isolate_session_state);
  EXPECT_EQ(updated.device_filters, config.device_filters);
  EXPECT_EQ(config, before);
  EXPECT_EQ(v1::OneDeviceStrategy().update_config_proto(config), before);
}

TEST(V1, strategies_can_be_used_as_strategies) {
  v1::MirroredStrategy strategy = v1_mirrored();
  const PerReplica<std::vector<float>> x({{0, 1, 2, 3}, {4, 5, 6, 7}});
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, x), (std::vector<float>{4, 6, 8, 10}));
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, x, 0), 3.5F);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
  EXPECT_EQ(strategy.experimental_local_results(x), components(x));
  v1::OneDeviceStrategy one;
  EXPECT_EQ(one.run([](int i) { return 2 * i; }, 4), 8);
  auto iterator = one.make_dataset_iterator(Dataset<Tensor>::range(4).batch(2));
  iterator.initialize();
  EXPECT_EQ(rows(iterator.get_next()), (Rows{{0, 1}}));
}

TEST(V1, arrays_become_datasets_with_or_without_a_session) {
  const v1::Session session;
  v1::MirroredStrategy strategy = v1_mirrored();
  const std::vector<float> ones(10, 1.0F);
  EXPECT_EQ(strategy.experimental_make_numpy_dataset(ones, &session).cardinality().count(), 10);
  EXPECT_EQ(strategy.experimental_make_numpy_dataset(ones).cardinality().count(), 10);
}

TEST(NumpyDataset, of_a_strategy_can_be_distributed_by_that_strategy) {
  MirroredStrategy strategy = mirrored(2);
  const auto data = strategy.experimental_make_numpy_dataset(std::vector<float>(10, 1.0F)).batch(4);
  float total = 0;
  for (const auto& batch : strategy.experimental_distribute_dataset(data)) {
    total += strategy.reduce(ReduceOp::sum, strategy.run(
                                                [](const Tensor& rows) {
                                                  float sum_of_rows = 0;
                                                  for (const float row : rows.elements<float>()) sum_of_rows += row;
                                                  return sum_of_rows;
                                                },
                                                batch));
  }
  EXPECT_EQ(total, 10.0F);
}

}  // namespace
}  // namespace lockstep::test
