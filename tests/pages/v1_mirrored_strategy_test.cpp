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
    "1: <Variable 'Variable/replica_1:0' shape=[] dtype=f32, value=1>}\n";

TEST(V1MirroredStrategyPage, a_variable_made_in_scope) {
  const Output output;
  // sample v1.MirroredStrategy 1
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const auto x = make_variable<float>(1.0F);
  std::cout << x << "\n";
  // MirroredVariable:{
  //   0: <Variable 'Variable:0' shape=[] dtype=f32, value=1>,
  //   1: <Variable 'Variable/replica_1:0' shape=[] dtype=f32, value=1>}
  // end of sample
  EXPECT_EQ(output.text(), two_copies_of_one);
}

TEST(V1MirroredStrategyPage, a_variable_made_by_a_function) {
  const Output output;
  // sample v1.MirroredStrategy 2
  std::vector<MirroredVariable<float>> x;
  const auto create_variable = [&] {
    if (x.empty()) x.push_back(make_variable<float>(1.0F));
    return x[0];
  };
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  const auto created = create_variable();
  std::cout << x[0] << "\n";
  // MirroredVariable:{
  //   0: <Variable 'Variable:0' shape=[] dtype=f32, value=1>,
  //   1: <Variable 'Variable/replica_1:0' shape=[] dtype=f32, value=1>}
  // end of sample
  EXPECT_EQ(output.text(), two_copies_of_one);
  EXPECT_EQ(create_variable(), created);
  EXPECT_EQ(x.size(), 1U);
}

TEST(V1MirroredStrategyPage, a_custom_training_loop) {
  const auto dataset = Dataset<Tensor>::range(10).batch(4);
  const int epochs = 2;
  std::int64_t train_result = 0;
  const auto process = [](const Tensor& input) { return sum_of(input); };
  // sample v1.MirroredStrategy 3
  v1::MirroredStrategy my_strategy({"CPU:0", "CPU:1"});
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

TEST(V1MirroredStrategyPage, cluster_resolver) {
  v1::MirroredStrategy single({"cpu:0", "cpu:1"});
  EXPECT_EQ(single.cluster_resolver(), nullptr);
  bool is_worker = false;
  bool is_parameter_server = false;
  on_the_first_worker([&](Communicator& communicator) {
    // sample v1.MirroredStrategy 4
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
  });
  EXPECT_TRUE(is_worker);
  EXPECT_FALSE(is_parameter_server);
}

TEST(V1MirroredStrategyPage, experimental_distribute_dataset) {
  const Output output;
  // sample v1.MirroredStrategy 5
  const int global_batch_size = 2;
  // Passing the devices is optional.
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  // Create a dataset
  const auto dataset = Dataset<Tensor>::range(4).batch(global_batch_size);
  // Distribute that dataset
  const auto dist_dataset = strategy.experimental_distribute_dataset(dataset);
  const auto replica_fn = [](const Tensor& input) { return input * 2; };
  std::vector<PerReplica<Tensor>> result;
  // Iterate over the DistributedDataset
  for (const auto& x : dist_dataset) {
    // process dataset elements
    result.push_back(strategy.run(replica_fn, x));
  }
  for (const auto& r : result) std::cout << r << "\n";
  // PerReplica:{0: [0], 1: [2]}
  // PerReplica:{0: [4], 1: [6]}
  // end of sample
  EXPECT_EQ(output.text(), "PerReplica:{0: [0], 1: [2]}\nPerReplica:{0: [4], 1: [6]}\n");
  EXPECT_EQ(result.front().component(0).shape(), Shape{1});
  EXPECT_EQ(result.front().component(0).dtype(), DType::i64);
}

TEST(V1MirroredStrategyPage, experimental_make_numpy_dataset) {
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  // sample v1.MirroredStrategy 6
  const std::vector<float> numpy_input(10, 1.0F);
  const auto dataset = strategy.experimental_make_numpy_dataset(numpy_input).batch(5);
  const auto dist_dataset = strategy.experimental_distribute_dataset(dataset);
  // end of sample
  EXPECT_EQ(all_of(strategy, dist_dataset), numpy_input);
  const v1::Session session;
  const auto with_session = strategy.experimental_make_numpy_dataset(numpy_input, &session).batch(5);
  EXPECT_EQ(all_of(strategy, strategy.experimental_distribute_dataset(with_session)), numpy_input);
}

TEST(V1MirroredStrategyPage, make_input_fn_iterator) {
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const std::int64_t global_batch_size = 6;
  const auto replica_fn = [](const Tensor& input) { return sum_of_ones(input, 3); };
  // sample v1.MirroredStrategy 7
  const auto input_fn = [&](const InputContext& input_context) {
    const auto batch_size = input_context.get_per_replica_batch_size(global_batch_size);
    const auto d = Dataset<Tensor>::from_tensors(Tensor::from({{1.0F}})).repeat().batch(batch_size);
    return d.shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
  };
  const auto scope = strategy.scope();
  auto iterator = strategy.make_input_fn_iterator(input_fn);
  iterator.initialize();
  const auto replica_results = strategy.experimental_run(replica_fn, iterator);
  // end of sample
  EXPECT_EQ(printed(replica_results), "PerReplica:{0: 3, 1: 3}");
}

TEST(V1MirroredStrategyPage, reduce) {
  const Output output;
  // sample v1.MirroredStrategy 8
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto step_fn = [] {
    const auto i = get_replica_context()->replica_id_in_sync_group();
    return Tensor::scalar(i);
  };

  const auto per_replica_result = strategy.run(step_fn);
  const auto total = strategy.reduce("SUM", per_replica_result);
  std::cout << total << "\n";  // 1
  // end of sample
  EXPECT_EQ(output.text(), "1\n");
  EXPECT_EQ(total.dtype(), DType::i32);
  EXPECT_EQ(total.shape(), Shape{});
}

TEST(V1MirroredStrategyPage, reduce_and_the_devices_of_its_values) {
  const Output output;
  // sample v1.MirroredStrategy 9
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto step_fn = [] {
    const auto i = get_replica_context()->replica_id_in_sync_group();
    return Tensor::scalar(i);
  };

  const auto per_replica_result = strategy.run(step_fn);
  // Check devices on which per replica result is:
  std::cout << to_string(strategy.experimental_local_results(per_replica_result)[0].device()) << "\n";
  // cpu:0
  std::cout << to_string(strategy.experimental_local_results(per_replica_result)[1].device()) << "\n";
  // cpu:1

  const auto total = strategy.reduce("SUM", per_replica_result);
  // Check device on which reduced result is:
  std::cout << to_string(total.device()) << "\n";
  // cpu:0
  // end of sample
  EXPECT_EQ(output.text(), "cpu:0\ncpu:1\ncpu:0\n");
}

TEST(V1MirroredStrategyPage, reduce_without_axis) {
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const PerReplica<std::vector<float>> per_replica_result({{0, 1, 2, 3}, {4, 5, 6, 7}});
  // sample v1.MirroredStrategy 10
  const auto sums = strategy.reduce("sum", per_replica_result);
  // end of sample
  EXPECT_EQ(sums, (std::vector<float>{0 + 4, 1 + 5, 2 + 6, 3 + 7}));
  EXPECT_EQ(strategy.reduce("sum", per_replica_result, std::nullopt), sums);
}

TEST(V1MirroredStrategyPage, reduce_along_the_batch) {
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const PerReplica<std::vector<float>> per_replica_result({{0, 1, 2, 3}, {4, 5, 6, 7}});
  // sample v1.MirroredStrategy 11
  const auto sum = strategy.reduce("sum", per_replica_result, 0);
  // end of sample
  EXPECT_EQ(sum, 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7);
}

TEST(V1MirroredStrategyPage, reduce_of_a_last_partial_batch) {
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const PerReplica<std::vector<float>> last({{0, 1, 2, 3}, {4, 5}});
  expect_error(Code::invalid_argument, {"shape"}, [&] { (void)strategy.reduce(ReduceOp::sum, last); });
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, last, 0), 2.5F);
}

TEST(V1MirroredStrategyPage, run_with_a_constant) {
  const Output output;
  // sample v1.MirroredStrategy 12
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto tensor_input = Tensor::scalar(3.0F);
  const auto replica_fn = [](const Tensor& input) { return input * 2.0F; };
  const auto result = strategy.run(replica_fn, tensor_input);
  std::cout << result << "\n";
  // PerReplica:{0: 6, 1: 6}
  // end of sample
  EXPECT_EQ(output.text(), "PerReplica:{0: 6, 1: 6}\n");
}

/// The page prints a plain 4, since both replicas returned one Python object; here types decide, and each replica has
/// its own.
TEST(V1MirroredStrategyPage, run_with_distributed_values) {
  const Output output;
  // sample v1.MirroredStrategy 13
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto run = [&] {
    const auto value_fn = [](const ValueContext& value_context) { return value_context.num_replicas_in_sync; };
    const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
    const auto replica_fn2 = [](int input) { return input * 2; };
    return strategy.run(replica_fn2, distributed_values);
  };
  const auto result = run();
  std::cout << result << "\n";
  // PerReplica:{0: 4, 1: 4}
  // end of sample
  EXPECT_EQ(output.text(), "PerReplica:{0: 4, 1: 4}\n");
}

TEST(V1MirroredStrategyPage, run_with_all_reduce) {
  const Output output;
  // sample v1.MirroredStrategy 14
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto run = [&] {
    const auto value_fn = [](const ValueContext& value_context) {
      return Tensor::scalar(value_context.replica_id_in_sync_group);
    };
    const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
    const auto replica_fn = [](const Tensor& input) { return get_replica_context()->all_reduce("sum", input); };
    return strategy.run(replica_fn, distributed_values);
  };
  const auto result = run();
  std::cout << result << "\n";
  // PerReplica:{0: 1, 1: 1}
  // end of sample
  EXPECT_EQ(output.text(), "PerReplica:{0: 1, 1: 1}\n");
}

TEST(V1MirroredStrategyPage, scope) {
  const Output output;
  // sample v1.MirroredStrategy 15
  v1::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  // Variable created inside scope:
  {
    const auto scope = strategy.scope();
    const auto mirrored_variable = make_variable<float>(1.0F);
    std::cout << mirrored_variable << "\n";
    // MirroredVariable:{
    //   0: <Variable 'Variable:0' shape=[] dtype=f32, value=1>,
    //   1: <Variable 'Variable/replica_1:0' shape=[] dtype=f32, value=1>}
  }
  // Variable created outside scope:
  const auto regular_variable = make_variable<float>(1.0F);
  std::cout << regular_variable << "\n";
  // <Variable 'Variable:0' shape=[] dtype=f32, value=1>
  // end of sample
  EXPECT_EQ(output.text(), two_copies_of_one + std::string("<Variable 'Variable:0' shape=[] dtype=f32, value=1>\n"));
}

TEST(V1MirroredStrategyPage, update_config_proto) {
  v1::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const v1::Config config;
  EXPECT_NE(strategy.update_config_proto(config), config);
  EXPECT_EQ(config, v1::Config{});
}

}  // namespace
}  // namespace lockstep::test
