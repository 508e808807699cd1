// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute.MirroredStrategy, TensorFlow 2.0.

#include "pages/samples.hpp"
#include "unit/input/files.hpp"

#include <atomic>
#include <fstream>

namespace lockstep::test {
namespace {

TEST(MirroredStrategyPage, experimental_distribute_dataset) {
  const TemporaryDirectory folder;
  const auto& a = folder.path();
  for (int i = 1; i <= 4; ++i) {  // file i has the records i and 10 * i, each of i bytes
    std::ofstream(a / (std::to_string(i) + ".tfr"), std::ios::binary)
        << tfrecord(Bytes(1, static_cast<char>(i))) << tfrecord(Bytes(1, static_cast<char>(10 * i)));
  }
  std::atomic<int> total = 0;
  std::atomic<int> calls = 0;
  const auto train_step = [&](const Tensor& x) {
    ++calls;
    for (const std::uint8_t record : x.elements<std::uint8_t>()) total += record;
  };
  // sample MirroredStrategy 1
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  // Create a dataset
  const auto dataset = tfrecord_dataset({a / "1.tfr", a / "2.tfr", a / "3.tfr", a / "4.tfr"}).batch(4);
  // Distribute that dataset
  const auto dist_dataset = strategy.experimental_distribute_dataset(dataset);
  // Iterate over the distributed dataset
  for (const auto& x : dist_dataset) {
    // process dataset elements
    strategy.experimental_run_v2(train_step, x);
  }
  // end of sample
  EXPECT_EQ(total, 11 * (1 + 2 + 3 + 4));
  EXPECT_EQ(calls, 2 * 2);
}

TEST(MirroredStrategyPage, experimental_distribute_datasets_from_function) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const std::int64_t global_batch_size = 4;
  std::atomic<int> calls = 0;
  const auto replica_fn = [&](const Tensor& input) {
    ++calls;
    return sum_of_ones(input, 2);
  };
  int steps = 0;
  // sample MirroredStrategy 2
  const auto dataset_fn = [&](const InputContext& input_context) {
    const auto batch_size = input_context.get_per_replica_batch_size(global_batch_size);
    const auto d = Dataset<Tensor>::from_tensors(Tensor::from({{1.0F}})).repeat().batch(batch_size);
    return d.shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
  };
  const auto inputs = strategy.experimental_distribute_datasets_from_function(dataset_fn);
  for (const auto& batch : inputs) {
    const auto replica_results = strategy.experimental_run_v2(replica_fn, batch);
    if (++steps == 2) break;  // the dataset has no end
  }
  // end of sample
  EXPECT_EQ(calls, 2 * 2);
}

TEST(MirroredStrategyPage, experimental_make_numpy_dataset) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  // sample MirroredStrategy 3
  const std::vector<float> numpy_input(10, 1.0F);
  const auto dataset = strategy.experimental_make_numpy_dataset(numpy_input).batch(4);
  const auto dist_dataset = strategy.experimental_distribute_dataset(dataset);
  // end of sample
  EXPECT_EQ(all_of(strategy, dist_dataset), numpy_input);
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
