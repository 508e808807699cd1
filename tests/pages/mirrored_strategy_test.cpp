// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute.MirroredStrategy, TensorFlow 2.0.

#include "pages/samples.hpp"

namespace lockstep::test {
namespace {

TEST(MirroredStrategyPage, experimental_distribute_dataset) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  // in place of four files of records
  const std::vector<std::vector<std::int64_t>> files{{1, 2}, {3, 4}, {5, 6}, {7, 8}};
  const auto dataset = Dataset<Tensor>::from_generator([&files] {
    return [&files, next = std::size_t{0}]() mutable -> std::optional<Tensor> {
      if (next == 8) return std::nullopt;
      const std::size_t record = next++;
      return Tensor::scalar(files[record / 2][record % 2]);
    };
  });
  const auto dist_dataset = strategy.experimental_distribute_dataset(dataset.batch(4));
  std::vector<std::int64_t> totals;
  for (const auto& x : dist_dataset) {
    totals.push_back(strategy.reduce(ReduceOp::sum, strategy.experimental_run_v2(sum_of, x)));
  }
  EXPECT_EQ(totals, (std::vector<std::int64_t>{10, 26}));
}

TEST(MirroredStrategyPage, experimental_distribute_datasets_from_function) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto dataset_fn = [](const InputContext& input_context) {
    EXPECT_EQ(input_context.num_input_pipelines(), 1);
    EXPECT_EQ(input_context.input_pipeline_id(), 0);
    return endless_ones().batch(input_context.get_per_replica_batch_size(4));
  };
  expect_ones(strategy, strategy.experimental_distribute_datasets_from_function(dataset_fn));
}

TEST(MirroredStrategyPage, experimental_make_numpy_dataset) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const std::vector<float> numpy_input(10, 1.0F);
  const auto dataset = strategy.experimental_make_numpy_dataset(numpy_input);
  EXPECT_EQ(all_of(strategy, dataset.batch(4)), numpy_input);
}

TEST(MirroredStrategyPage, reduce_over_replicas_and_along_the_batch) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const PerReplica<std::vector<float>> losses({{0, 1, 2, 3}, {4, 5, 6, 7}});
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, losses), (std::vector<float>{0 + 4, 1 + 5, 2 + 6, 3 + 7}));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, losses, 0), 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7);
}

TEST(MirroredStrategyPage, reduce_of_a_last_partial_batch) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const PerReplica<std::vector<float>> losses({{0, 1, 2, 3}, {4, 5}});
  expect_error(Code::invalid_argument, {"shape", "[4]", "[2]"}, [&] { (void)strategy.reduce(ReduceOp::sum, losses); });
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, losses, 0), 15.0F / 6);  // the correct denominator of 6
  const PerReplica<float> means({1.5F, 4.5F});                       // weighs some values 1/8 and others 1/4
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, means), 3.0F);
}

}  // namespace
}  // namespace lockstep::test
