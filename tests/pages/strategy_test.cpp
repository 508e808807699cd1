// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute.Strategy.

#include "pages/samples.hpp"

namespace lockstep::test {
namespace {

TEST(StrategyPage, a_custom_training_loop) {
  MirroredStrategy my_strategy({"cpu:0", "cpu:1"});
  const Scope scope = my_strategy.scope();
  const auto distribute_train_epoch = [&](const DistributedDataset<Tensor>& dataset) {
    std::int64_t total_result = 0;
    for (const auto& x : dataset) {
      const auto per_replica_result = my_strategy.run(sum_of, x);
      total_result += my_strategy.reduce(ReduceOp::sum, per_replica_result);
    }
    return total_result;
  };
  const auto dist_dataset = my_strategy.experimental_distribute_dataset(Dataset<Tensor>::range(10).batch(4));
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(distribute_train_epoch(dist_dataset), 45);
}

TEST(StrategyPage, cluster_resolver) {
  MirroredStrategy single;
  EXPECT_EQ(single.cluster_resolver(), nullptr);
  on_ranks({1, 2}, [](Communicator& communicator) {
    const std::string tf_config = R"({
      "cluster": {
        "worker": ["localhost:12345", "localhost:23456"],
        "ps": ["localhost:34567"]
      },
      "task": {"type": "worker", "index": )" +
                                  std::to_string(communicator.rank()) + "}}";
    // where the sample sets a variable, each of these threads has a text of its own
    const MultiWorkerMirroredStrategy strategy(communicator,
                                               {.cluster_resolver = TFConfigClusterResolver::from_text(tf_config)});
    const ClusterResolver* resolver = strategy.cluster_resolver();
    ASSERT_NE(resolver, nullptr);
    EXPECT_EQ(resolver->task_type(), "worker");
    EXPECT_EQ(resolver->task_id(), communicator.rank());
    EXPECT_EQ(resolver->cluster_spec().num_tasks("worker"), 2);
    EXPECT_EQ(resolver->cluster_spec().task_address("ps", 0), "localhost:34567");
  });
}

TEST(StrategyPage, distribute_datasets_from_function) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const auto dataset_fn = [&](const InputContext& input_context) {
      EXPECT_EQ(input_context.num_input_pipelines(), 2);
      EXPECT_EQ(input_context.input_pipeline_id(), strategy.communicator().rank());
      return endless_ones()
          .batch(input_context.get_per_replica_batch_size(4))
          .shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
    };
    expect_ones(strategy, strategy.distribute_datasets_from_function(dataset_fn));
  });
}

}  // namespace
}  // namespace lockstep::test
