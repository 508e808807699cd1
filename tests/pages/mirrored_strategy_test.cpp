// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute.MirroredStrategy, TensorFlow 2.0.

#include "pages/samples.hpp"
#include "unit/input/files.hpp"

#include <fstream>

namespace lockstep::test {
namespace {

TEST(MirroredStrategyPage, experimental_distribute_dataset) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const TemporaryDirectory folder;
  FileList files;
  for (const char* const bytes : {"\1\2", "\3\4", "\5\6", "\7\10"}) {  // a record is the byte of a number
    files.push_back(folder.path() / (std::to_string(files.size() + 1) + ".tfr"));
    std::ofstream(files.back(), std::ios::binary) << tfrecord(Bytes(1, bytes[0])) << tfrecord(Bytes(1, bytes[1]));
  }
  const auto dataset = tfrecord_dataset(files).map(
      [](const Tensor& record) { return Tensor::scalar(std::int64_t{record.elements<std::uint8_t>().front()}); });
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
    return endless_ones()
        .batch(input_context.get_per_replica_batch_size(4))
        .shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
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
