// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute.OneDeviceStrategy, TensorFlow 2.3.

#include "pages/samples.hpp"

namespace lockstep::test {
namespace {

TEST(OneDeviceStrategyPage, class_description) {
  OneDeviceStrategy strategy("/cpu:0");
  const auto v = [&] {
    const Scope scope = strategy.scope();
    return strategy.variable<float>(1.0F);
  }();
  EXPECT_EQ(to_string(v.component(0).device()), "cpu:0");
  const auto step_fn = [](int x) { return x * 2; };
  int result = 0;
  for (int i = 0; i < 10; ++i) result += strategy.run(step_fn, i);
  EXPECT_EQ(result, 90);
}

TEST(OneDeviceStrategyPage, cluster_resolver) {
  OneDeviceStrategy single;
  EXPECT_EQ(single.cluster_resolver(), nullptr);
  on_workers({1, 1}, [](Strategy& strategy) {
    const ClusterResolver* resolver = strategy.cluster_resolver();
    ASSERT_NE(resolver, nullptr);
    bool ran_what_is_for_workers = false;
    if (resolver->task_type() == "worker") {
      ran_what_is_for_workers = true;
    } else if (resolver->task_type() == "ps") {
      ADD_FAILURE() << "no rank is a parameter server";
    }
    EXPECT_TRUE(ran_what_is_for_workers);
    EXPECT_EQ(resolver->task_id(), strategy.communicator().rank());
  });
}

TEST(OneDeviceStrategyPage, experimental_assign_to_logical_device) {
  OneDeviceStrategy strategy;
  const auto step_fn = [&](const std::vector<float>& inputs) {
    std::vector<float> output;
    for (const float x : inputs) output.push_back(x + x);
    return strategy.experimental_assign_to_logical_device(output, 0);
  };
  EXPECT_EQ(strategy.run(step_fn, std::vector<float>{1, 2}), (std::vector<float>{2, 4}));
  // the sample's replicas have two logical devices, these have one
  expect_error(Code::invalid_argument, {"logical"},
               [&] { (void)strategy.experimental_assign_to_logical_device(1.0F, 1); });
}

TEST(OneDeviceStrategyPage, experimental_distribute_dataset) {
  OneDeviceStrategy strategy;
  const auto dataset = Dataset<Tensor>::range(10).batch(2);
  std::string text;
  for (const auto& x : strategy.experimental_distribute_dataset(dataset)) text += printed(x.value()) + " ";
  EXPECT_EQ(text, "[0, 1] [2, 3] [4, 5] [6, 7] [8, 9] ");
}

TEST(OneDeviceStrategyPage, experimental_distribute_datasets_from_function) {
  OneDeviceStrategy strategy;
  const auto dataset_fn = [](const InputContext& input_context) {
    return endless_ones()
        .batch(input_context.get_per_replica_batch_size(4))
        .shard(input_context.num_input_pipelines(), input_context.input_pipeline_id());
  };
  expect_ones(strategy, strategy.experimental_distribute_datasets_from_function(dataset_fn));
}

TEST(OneDeviceStrategyPage, experimental_distribute_values_from_function_of_a_constant) {
  MirroredStrategy strategy;
  const auto value_fn = [](const ValueContext&) { return 1.0F; };
  const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
  EXPECT_EQ(strategy.experimental_local_results(distributed_values), (std::vector<float>{1.0F}));
}

TEST(OneDeviceStrategyPage, experimental_distribute_values_from_function_of_an_array) {
  MirroredStrategy strategy;
  const std::vector<float> array_value{3, 2, 1};
  const auto value_fn = [&](const ValueContext& context) {
    return array_value[static_cast<std::size_t>(context.replica_id_in_sync_group)];
  };
  const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
  EXPECT_EQ(strategy.experimental_local_results(distributed_values), (std::vector<float>{3.0F}));
}

TEST(OneDeviceStrategyPage, experimental_distribute_values_from_function_of_the_number_of_replicas) {
  MirroredStrategy strategy;
  const auto value_fn = [](const ValueContext& context) { return context.num_replicas_in_sync; };
  const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
  EXPECT_EQ(strategy.experimental_local_results(distributed_values), std::vector<int>{1});
}

TEST(OneDeviceStrategyPage, experimental_distribute_values_from_function_of_values_on_the_devices) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  std::vector<Tensor> multiple_values;
  for (const Device device : strategy.extended().worker_devices()) {
    multiple_values.emplace_back(DType::f32, Shape{}, nullptr, device);
    multiple_values.back().elements<float>().front() = 1.0F;
  }
  const auto value_fn = [&](const ValueContext& context) {
    return multiple_values[static_cast<std::size_t>(context.replica_id_in_sync_group)];
  };
  const auto distributed_values = strategy.experimental_distribute_values_from_function(value_fn);
  EXPECT_EQ(printed(distributed_values), "PerReplica:{0: 1, 1: 1}");
  EXPECT_EQ(to_string(distributed_values.component(1).device()), "cpu:1");
}

TEST(OneDeviceStrategyPage, experimental_make_numpy_dataset) {
  MirroredStrategy strategy;
  const std::vector<float> numpy_input(10, 1.0F);
  Dataset<Tensor> dataset = strategy.experimental_make_numpy_dataset(numpy_input);
  const Tensor element = dataset.iterate().get_next_as_optional().value();
  EXPECT_EQ(element.shape(), Shape{});  // shapes: (), types: tf.float32
  EXPECT_EQ(element.dtype(), DType::f32);
  dataset = dataset.batch(2);
  EXPECT_EQ(all_of(strategy, dataset), numpy_input);
}

/// The sample has 8 logical devices per replica, where the parts would be 2 * 4; here there is one.
TEST(OneDeviceStrategyPage, experimental_replicate_to_logical_devices) {
  OneDeviceStrategy strategy;
  const auto step_fn = [&](const Tensor& images, const std::vector<float>& labels) {
    const Tensor split = strategy.experimental_split_to_logical_devices(images, {1, 1, 1, 1});
    const std::vector<float> everywhere = strategy.experimental_replicate_to_logical_devices(labels);
    float loss = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) loss += everywhere[i] - split.elements<float>()[i];
    return loss;
  };
  EXPECT_EQ(strategy.run(step_fn, Tensor(DType::f32, Shape{2, 1, 1, 1}), std::vector<float>{1, 2}), 3.0F);
}

TEST(OneDeviceStrategyPage, experimental_split_to_logical_devices) {
  OneDeviceStrategy strategy;
  const Tensor image(DType::f32, Shape{2, 4, 8, 3});
  EXPECT_EQ(strategy.experimental_split_to_logical_devices(image, {1, 1, 1, 1}).data(), image.data());
  expect_error(Code::invalid_argument, {"logical"},
               [&] { (void)strategy.experimental_split_to_logical_devices(image, {1, 2, 4, 1}); });
  expect_error(Code::invalid_argument, {"split_to_logical_devices"},
               [&] { (void)strategy.experimental_split_to_logical_devices(image, {1, 1}); });
}

TEST(OneDeviceStrategyPage, reduce) {
  OneDeviceStrategy strategy;
  std::vector<int> t;
  for (int i = 0; i < 10; ++i) t.push_back(i);
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, t), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, t, 0), 45);
}

}  // namespace
}  // namespace lockstep::test
