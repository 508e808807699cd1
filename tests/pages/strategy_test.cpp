// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute.Strategy.

#include "pages/samples.hpp"

namespace lockstep::test {
namespace {

TEST(StrategyPage, a_custom_training_loop) {
  MirroredStrategy my_strategy({"cpu:0", "cpu:1"});
  const auto dataset = Dataset<Tensor>::range(10).batch(4);
  const int epochs = 2;
  std::int64_t train_result = 0;
  const auto process = [](const Tensor& input) { return sum_of(input); };
  // sample Strategy 1
  const auto scope = my_strategy.scope();
  const auto distribute_train_epoch = [&](const DistributedDataset<Tensor>& inputs) {
    const auto replica_fn = [&](const Tensor& input) {
      // process input and return result
      return process(input);
    };

    std::int64_t total_result = 0;
    for (const auto& x : inputs) {
      const auto per_replica_result = my_strategy.run(replica_fn, x);
      total_result += my_strategy.reduce(ReduceOp::sum, per_replica_result);
    }
    return total_result;
  };

  const auto dist_dataset = my_strategy.experimental_distribute_dataset(dataset);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    train_result = distribute_train_epoch(dist_dataset);
  }
  // end of sample
  EXPECT_EQ(train_result, 45);
}

TEST(StrategyPage, cluster_resolver) {
  MirroredStrategy single;
  EXPECT_EQ(single.cluster_resolver(), nullptr);
  bool is_worker = false;
  bool is_parameter_server = false;
  on_the_first_worker([&](Communicator& communicator) {
    // sample Strategy 2
    const auto tf_config = R"({
      "cluster": {
        "worker": ["localhost:12345", "localhost:23456"],
        "ps": ["localhost:34567"]
      },
      "task": {"type": "worker", "index": 0}
    })";

    // This uses tf_config for the cluster and current task info.
    MultiWorkerMirroredStrategy strategy(communicator,
                                         {.cluster_resolver = TFConfigClusterResolver::from_text(tf_config)});

    if (strategy.cluster_resolver()->task_type() == "worker") {
      // Perform something that's only applicable on workers. Since we set this
      // as a worker above, this block will run on this particular instance.
      is_worker = true;
    } else if (strategy.cluster_resolver()->task_type() == "ps") {
      // Perform something that's only applicable on parameter servers. Since we
      // set this as a worker above, this block will not run on this particular
      // instance.
      is_parameter_server = true;
    }
    // end of sample
    const ClusterResolver* resolver = strategy.cluster_resolver();
    EXPECT_EQ(resolver->task_id(), 0);
    EXPECT_EQ(resolver->cluster_spec().num_tasks("worker"), 2);
    EXPECT_EQ(resolver->cluster_spec().task_address("ps", 0), "localhost:34567");
  });
  EXPECT_TRUE(is_worker);
  EXPECT_FALSE(is_parameter_server);
}

TEST(StrategyPage, distribute_datasets_from_function) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const auto dataset_fn = [&](const InputContext& input_context) {
      EXPECT_EQ(input_context.num_input_pipelines(), 2);
      EXPECT_EQ(input_context.input_pipeline_id(), strategy.communicator().rank());
      return Dataset<Tensor>::from_tensors(Tensor::from({{1.0F}}))
          .repeat()
          .batch(input_context.get_per_replica_batch_size(4))
          .shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
    };
    int steps = 0;
    for (const auto& batch : strategy.distribute_datasets_from_function(dataset_fn)) {
      const auto replica_results = strategy.run([](const Tensor& input) { return sum_of_ones(input, 2); }, batch);
      EXPECT_EQ(float(strategy.reduce(ReduceOp::sum, replica_results)), 4.0F);
      if (++steps == 2) break;
    }
    EXPECT_EQ(steps, 2);
  });
}

}  // namespace
}  // namespace lockstep::test
