// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute.OneDeviceStrategy, TensorFlow 2.3.

#include "pages/samples.hpp"

#include <tuple>
#include <utility>

namespace lockstep::test {
namespace {

TEST(OneDeviceStrategyPage, class_description) {
  const Output output;
  // sample OneDeviceStrategy 1
  OneDeviceStrategy strategy("/cpu:0");

  {
    const auto scope = strategy.scope();
    const auto v = make_variable<float>(1.0F);
    std::cout << to_string(v.device()) << "\n";  // cpu:0
  }

  const auto step_fn = [](int x) { return x * 2; };

  int result = 0;
  for (int i = 0; i < 10; ++i) result += strategy.run(step_fn, i);
  std::cout << result << "\n";  // 90
  // end of sample
  EXPECT_EQ(output.text(), "cpu:0\n90\n");
}

TEST(OneDeviceStrategyPage, cluster_resolver) {
  OneDeviceStrategy single;
  EXPECT_EQ(single.cluster_resolver(), nullptr);
  bool is_worker = false;
  bool is_parameter_server = false;
  on_the_first_worker([&](Communicator& communicator) {
    // sample OneDeviceStrategy 2
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
    EXPECT_EQ(strategy.cluster_resolver()->task_id(), 0);
  });
  EXPECT_TRUE(is_worker);
  EXPECT_FALSE(is_parameter_server);
}

TEST(OneDeviceStrategyPage, experimental_assign_to_logical_device) {
  const auto dataset = Dataset<Tensor>::range(8).batch(8);
  // sample OneDeviceStrategy 3
  // 4 replicas, each with 1 logical device.
  MirroredStrategy strategy({"cpu:0", "cpu:1", "cpu:2", "cpu:3"});
  auto iterator = strategy.experimental_distribute_dataset(dataset).iterate();

  const auto step_fn = [&](const Tensor& inputs) {
    const Tensor output = inputs + inputs;

    // Add operation will be executed on logical device 0.
    return strategy.experimental_assign_to_logical_device(output, 0);
  };

  const auto result = strategy.run(step_fn, iterator.get_next());
  // end of sample
  EXPECT_EQ(printed(result), "PerReplica:{0: [0, 2], 1: [4, 6], 2: [8, 10], 3: [12, 14]}");
  // the page's replicas have two logical devices, these have one
  expect_error(Code::invalid_argument, {"logical"},
               [&] { (void)strategy.experimental_assign_to_logical_device(1.0F, 1); });
}

TEST(OneDeviceStrategyPage, experimental_distribute_dataset) {
  const Output output;
  // sample OneDeviceStrategy 4
  OneDeviceStrategy strategy;
  const auto dataset = Dataset<Tensor>::range(10).batch(2);
  const auto dist_dataset = strategy.experimental_distribute_dataset(dataset);
  for (const auto& x : dist_dataset) {
    std::cout << x.value() << "\n";  // [0, 1], [2, 3], ...
  }
  // end of sample
  EXPECT_EQ(output.text(), "[0, 1]\n[2, 3]\n[4, 5]\n[6, 7]\n[8, 9]\n");
}

TEST(OneDeviceStrategyPage, experimental_distribute_datasets_from_function) {
  OneDeviceStrategy strategy;
  const std::int64_t global_batch_size = 4;
  const auto replica_fn = [](const Tensor& input) { return sum_of_ones(input, 4); };
  int steps = 0;
  // sample OneDeviceStrategy 5
  const auto dataset_fn = [&](const InputContext& input_context) {
    const auto batch_size = input_context.get_per_replica_batch_size(global_batch_size);
    const auto d = Dataset<Tensor>::from_tensors(Tensor::from({{1.0F}})).repeat().batch(batch_size);
    return d.shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
  };

  const auto inputs = strategy.experimental_distribute_datasets_from_function(dataset_fn);

  for (const auto& batch : inputs) {
    const auto replica_results = strategy.run(replica_fn, batch);
    if (++steps == 2) break;  // the dataset has no end
  }
  // end of sample
  EXPECT_EQ(steps, 2);
}

TEST(OneDeviceStrategyPage, experimental_distribute_values_from_function_of_a_constant) {
  const Output output;
  // sample OneDeviceStrategy 6
  MirroredStrategy strategy;
  const auto value_fn = [](const ValueContext&) { return Tensor::scalar(1.0F); };
  const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
  const auto local_result = strategy.experimental_local_results(distributed_values);
  std::cout << local_result[0] << "\n";  // 1
  // end of sample
  EXPECT_EQ(output.text(), "1\n");
}

TEST(OneDeviceStrategyPage, experimental_distribute_values_from_function_of_an_array) {
  const Output output;
  // sample OneDeviceStrategy 7
  MirroredStrategy strategy;
  const std::vector<float> array_value{3, 2, 1};
  const auto value_fn = [&](const ValueContext& ctx) { return array_value[ctx.replica_id_in_sync_group]; };
  const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
  const auto local_result = strategy.experimental_local_results(distributed_values);
  std::cout << local_result[0] << "\n";  // 3
  // end of sample
  EXPECT_EQ(output.text(), "3\n");
}

TEST(OneDeviceStrategyPage, experimental_distribute_values_from_function_of_the_number_of_replicas) {
  const Output output;
  // sample OneDeviceStrategy 8
  MirroredStrategy strategy;
  const auto value_fn = [](const ValueContext& ctx) { return ctx.num_replicas_in_sync; };
  const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
  const auto local_result = strategy.experimental_local_results(distributed_values);
  std::cout << local_result[0] << "\n";  // 1
  // end of sample
  EXPECT_EQ(output.text(), "1\n");
}

TEST(OneDeviceStrategyPage, experimental_distribute_values_from_function_of_values_on_the_devices) {
  // sample OneDeviceStrategy 9
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto worker_devices = strategy.extended().worker_devices();
  std::vector<Tensor> multiple_values;
  for (int i = 0; i < strategy.num_replicas_in_sync(); ++i) {
    multiple_values.push_back(Tensor::scalar(1.0F).to(worker_devices[i]));
  }

  const auto value_fn = [&](const ValueContext& ctx) { return multiple_values[ctx.replica_id_in_sync_group]; };

  const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
  // end of sample
  EXPECT_EQ(printed(distributed_values), "PerReplica:{0: 1, 1: 1}");
  EXPECT_EQ(to_string(distributed_values.component(1).device()), "cpu:1");
}

TEST(OneDeviceStrategyPage, experimental_make_numpy_dataset) {
  // sample OneDeviceStrategy 10
  MirroredStrategy strategy;
  const std::vector<float> numpy_input(10, 1.0F);
  auto dataset = strategy.experimental_make_numpy_dataset(numpy_input);
  // dataset: elements of shape [] and dtype f32
  dataset = dataset.batch(2);
  const auto dist_dataset = strategy.experimental_distribute_dataset(dataset);
  // end of sample
  EXPECT_EQ(all_of(strategy, dist_dataset), numpy_input);
  for (const Tensor& element : strategy.experimental_make_numpy_dataset(numpy_input)) {
    EXPECT_EQ(element.shape(), Shape{});
    EXPECT_EQ(element.dtype(), DType::f32);
  }
}

/// The page's replicas have 8 logical devices, where the parts would be 2 * 4; here they have one.
TEST(OneDeviceStrategyPage, experimental_replicate_to_logical_devices) {
  const auto dataset =
      Dataset<std::pair<Tensor, Tensor>>::from_tensors({Tensor::from({1.0F, 2.0F}), Tensor::from({3.0F, 5.0F})})
          .repeat(4)
          .batch(4);
  const auto model = [](const Tensor& x) { return x * 2.0F; };
  const auto loss_fn = [](const Tensor& labels, const Tensor& output) { return labels - output; };
  // sample OneDeviceStrategy 11
  // 4 replicas, each with 1 logical device.
  MirroredStrategy strategy({"cpu:0", "cpu:1", "cpu:2", "cpu:3"});
  auto iterator = strategy.experimental_distribute_dataset(dataset).iterate();

  const auto step_fn = [&](const std::pair<Tensor, Tensor>& inputs) {
    auto [images, labels] = inputs;
    images = strategy.experimental_split_to_logical_devices(images, {1, 1});

    // model() function will be executed on the logical device.
    auto output = model(images);

    // For loss calculation, all logical devices share the same logits
    // and labels.
    labels = strategy.experimental_replicate_to_logical_devices(labels);
    output = strategy.experimental_replicate_to_logical_devices(output);
    const auto loss = loss_fn(labels, output);

    return loss;
  };

  const auto result = strategy.run(step_fn, iterator.get_next());
  // end of sample
  EXPECT_EQ(printed(result), "PerReplica:{0: [[1, 1]], 1: [[1, 1]], 2: [[1, 1]], 3: [[1, 1]]}");
}

TEST(OneDeviceStrategyPage, experimental_split_to_logical_devices) {
  const auto dataset = Dataset<Tensor>::range(4).batch(4);
  const auto model = [](const Tensor& x) { return x * 2; };
  // sample OneDeviceStrategy 12
  // 1 replica with 1 logical device.
  OneDeviceStrategy strategy;
  auto iterator = strategy.experimental_distribute_dataset(dataset).iterate();

  const auto step_fn = [&](const Tensor& inputs) {
    const auto parts = strategy.experimental_split_to_logical_devices(inputs, {1});

    // model() function will be executed on the logical device.
    const auto output = model(parts);

    return output;
  };

  const auto result = strategy.run(step_fn, iterator.get_next());
  // end of sample
  EXPECT_EQ(printed(result), "[0, 2, 4, 6]");
  const Tensor image(DType::f32, Shape{2, 4, 8, 3});
  EXPECT_EQ(strategy.experimental_split_to_logical_devices(image, {1, 1, 1, 1}).data(), image.data());
  expect_error(Code::invalid_argument, {"logical"},
               [&] { (void)strategy.experimental_split_to_logical_devices(image, {1, 2, 4, 1}); });
  expect_error(Code::invalid_argument, {"split_to_logical_devices"},
               [&] { (void)strategy.experimental_split_to_logical_devices(image, {1, 1}); });
}

TEST(OneDeviceStrategyPage, reduce) {
  OneDeviceStrategy strategy;
  const Output output;
  // sample OneDeviceStrategy 13
  const auto t = Tensor::from({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  auto result = strategy.reduce(ReduceOp::sum, t);
  std::cout << result << "\n";  // [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

  result = strategy.reduce(ReduceOp::sum, t, 0);
  std::cout << result << "\n";  // 45
  // end of sample
  EXPECT_EQ(output.text(), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n45\n");
}

}  // namespace
}  // namespace lockstep::test
