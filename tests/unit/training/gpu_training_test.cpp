// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Training of parameters on GPUs: the bits of the host, and checkpoints.

#include "support/temporary_directory.hpp"
#include "unit/strategy/gpu_strategies.hpp"

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/safetensors.hpp>

#include <functional>
#include <memory>
#include <optional>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Parameters = std::vector<MirroredVariable<float>>;
using Make = std::function<std::unique_ptr<Optimizer>(Strategy&, const Parameters&)>;

Floats gradient_of(const ReplicaContext& replica, int step) {
  Floats gradient;
  for (int i = 0; i < 37; ++i) {
    gradient.push_back(0.37F * static_cast<float>(i - 11) * static_cast<float>(step) +
                       static_cast<float>(replica.replica_id_in_sync_group()));
  }
  return gradient;
}

/// Three steps; gradients on the replicas' devices, or in host memory.
void train(Strategy& strategy, Optimizer& optimizer, bool on_device) {
  for (int step = 1; step <= 3; ++step) {
    strategy.run([&](ReplicaContext& replica) {
      Tensor gradient = Tensor::from(gradient_of(replica, step));
      if (on_device) gradient = gradient.to(replica.devices().front());
      const TensorView view = gradient.view();
      optimizer.apply_gradients(replica, std::span(&view, 1), 0.01F, ReduceOp::mean);
    });
  }
}

Floats trained(Strategy& strategy, const Make& make, bool on_device) {
  Floats initial;
  for (int i = 0; i < 37; ++i) initial.push_back(1.0F - 0.05F * static_cast<float>(i));
  const auto w = strategy.variable<float>(initial, {.name = "w"});
  const auto optimizer = make(strategy, {w});
  train(strategy, *optimizer, on_device);
  const auto copies = copies_from<float>(w);
  for (const Floats& copy : copies) EXPECT_EQ(copy, copies.front());
  return copies.front();
}

TEST_F(OnGpus, optimizers_give_the_bits_of_the_host) {
  const std::vector<Make> all{
      [](Strategy& s, const Parameters& p) { return std::make_unique<Sgd>(s, p); },
      [](Strategy& s, const Parameters& p) { return std::make_unique<Sgd>(s, p, SgdOptions{.momentum = 0.9F}); },
      [](Strategy& s, const Parameters& p) { return std::make_unique<Adam>(s, p); },
      [](Strategy& s, const Parameters& p) { return std::make_unique<Lamb>(s, p, LambOptions{.weight_decay = 0.1F}); }};
  for (const Make& make : all) {
    MirroredStrategy hosts = mirrored(2);
    const Floats expected = trained(hosts, make, false);
    // replicas on one GPU are added in the order of the host
    MirroredStrategy gpus({"gpu:0", "gpu:0#1"});
    EXPECT_EQ(trained(gpus, make, true), expected);
    EXPECT_EQ(trained(gpus, make, false), expected);
    MirroredStrategy both({"gpu:1", "cpu:0"});
    EXPECT_EQ(trained(both, make, true), expected);
  }
}

TEST_F(OnGpus, optimizers_refuse_other_gradients_and_write_nothing) {
  MirroredStrategy strategy({"gpu:0"});
  const auto w = strategy.variable<float>(Floats{1, 2}, {.name = "w"});
  Sgd sgd(strategy, {w});
  const auto apply = [&](const Tensor& gradient) {
    strategy.run([&](ReplicaContext& replica) {
      Tensor mine = gradient.to(replica.devices().front());
      const TensorView view = mine.view();
      sgd.apply(replica, std::span(&view, 1), 0.1F);
    });
  };
  expect_error(Code::invalid_argument, {"gradient 0 has 3 elements", "\"w\" has 2"},
               [&] { apply(Tensor::from(Floats{1, 2, 3})); });
  expect_error(Code::invalid_argument, {"gradient 0 is f64", "\"w\" is f32"},
               [&] { apply(Tensor::from(std::vector<double>{1, 2})); });
  EXPECT_EQ(w.values(), (Floats{1, 2}));
}

TEST_F(OnGpus, buckets_of_gradients_are_reduced_in_place) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  std::vector<Tensor> tensors;
  std::vector<std::vector<TensorView>> lists;
  for (int i = 0; i < 2; ++i) {
    tensors.push_back(Tensor::from(Floats{1, static_cast<float>(i)}).to(gpu(i)));
    lists.push_back({tensors.back().view()});
  }
  GradientBuckets buckets(strategy.communicator(), lists);
  strategy.run([&](ReplicaContext& replica) {
    buckets.ready(replica, 0);
    buckets.finish(replica);
  });
  for (const Tensor& tensor : tensors) EXPECT_EQ(elements_from<float>(tensor), (Floats{2, 1}));
}

TEST_F(OnGpus, micro_batches_are_added_without_an_exchange) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  std::vector<Tensor> tensors;
  std::vector<std::vector<TensorView>> lists;
  for (int i = 0; i < 2; ++i) {
    tensors.push_back(Tensor::from(Floats{1, static_cast<float>(i)}).to(gpu(i)));
    lists.push_back({tensors.back().view()});
  }
  GradientBuckets buckets(strategy.communicator(), lists);
  for (int m = 0; m < 3; ++m) {
    std::optional<GradientBuckets::NoSync> no_sync;
    if (m < 2) no_sync.emplace(buckets);
    strategy.run([&](ReplicaContext& replica) { buckets.finish(replica); });
    if (m < 2) {
      EXPECT_EQ(elements_from<float>(tensors[1]), (Floats{1, 1}));
    }
  }
  for (const Tensor& tensor : tensors) EXPECT_EQ(elements_from<float>(tensor), (Floats{6, 3}));
}

TEST_F(OnGpus, what_needs_host_memory_refuses_tensors_on_gpus) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto w = strategy.variable<float>(Floats{1, 2}, {.name = "w"});
  expect_error(Code::invalid_argument, {"parameter \"w\" is on gpu:0; parameters must be in host memory"},
               [&] { ShardedOptimizer(strategy, {w}, AdamOptions{}); });
  Tensor wide(DType::f32, Shape{4}, nullptr, gpu(0));
  Tensor narrow(DType::bf16, Shape{4}, nullptr, gpu(0));
  MirroredStrategy one({"gpu:0"});
  const std::vector<TensorView> views{wide.view(), narrow.view()};
  expect_error(Code::unimplemented, {"bf16_compression: a tensor is on gpu:0"},
               [&] { GradientBuckets(one.communicator(), views, {.hook = bf16_compression()}); });
  GradientBuckets buckets(one.communicator(), views);
  expect_error(Code::unimplemented, {"no_sync: tensor 1 is bf16 on gpu:0"},
               [&] { static_cast<void>(buckets.no_sync()); });
}

TEST_F(OnGpus, a_sharded_optimizer_updates_parameters_in_host_memory) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto w = strategy.variable<float>(Floats(5, 1.0F), {.name = "w", .in_host_memory = true});
  ShardedOptimizer optimizer(strategy, {w}, SgdOptions{.momentum = 0.5F});
  for (int step = 0; step < 2; ++step) {
    strategy.run([&](ReplicaContext& replica) {
      Floats gradient(5, 1);
      optimizer.apply_gradients(replica, {gradient}, 0.25F, ReduceOp::mean);
    });
  }
  for (const Floats& copy : copies_from<float>(w)) EXPECT_EQ(copy, Floats(5, 1 - 0.25F - 0.375F));
}

TEST_F(OnGpus, a_checkpoint_keeps_variables_and_goes_on_on_any_device) {
  const TemporaryDirectory directory;
  const VariableOptions on_read{
      .name = "r", .synchronization = VariableSynchronization::on_read, .aggregation = VariableAggregation::sum};
  const auto make = [](Strategy& s, const Parameters& p) { return std::make_unique<Adam>(s, p); };
  Floats expected;
  const auto save = [&](MirroredStrategy& strategy, std::int64_t number) {
    const auto w = strategy.variable<float>(Floats(37, 1.0F), {.name = "w"});
    const auto r = strategy.sync_on_read_variable<float>(Floats{0, 0}, on_read);
    const auto adam = make(strategy, {w});
    train(strategy, *adam, true);
    strategy.run(
        [&](ReplicaContext& replica) { r.assign(Floats{static_cast<float>(replica.replica_id_in_sync_group()), 1}); });
    Checkpoint checkpoint(strategy);
    checkpoint.track("w", w).track("r", r).track("adam", *adam);
    number % 2 == 0 ? static_cast<void>(checkpoint.save(directory.path(), number))
                    : static_cast<void>(checkpoint.save_async(directory.path(), number).wait());
    train(strategy, *adam, true);
    expected = w.values();
  };
  const auto restore = [&](MirroredStrategy& strategy, std::int64_t number) {
    const auto w = strategy.variable<float>(Floats(37, 0.0F), {.name = "w"});
    const auto r = strategy.sync_on_read_variable<float>(Floats{0, 0}, on_read);
    const auto adam = make(strategy, {w});
    Checkpoint checkpoint(strategy);
    checkpoint.track("w", w).track("r", r).track("adam", *adam);
    EXPECT_EQ(checkpoint.restore(directory.path(), number), number);
    EXPECT_EQ(r.values(), (Floats{1, 2}));
    train(strategy, *adam, true);
    EXPECT_EQ(w.values(), expected);
  };
  MirroredStrategy gpus({"gpu:0", "gpu:0#1"});
  MirroredStrategy hosts = mirrored(2);
  MirroredStrategy both({"cpu:0", "gpu:1"});
  save(gpus, 2);
  for (MirroredStrategy* strategy : {&gpus, &hosts, &both}) restore(*strategy, 2);
  save(gpus, 3);
  restore(hosts, 3);
  save(hosts, 4);
  restore(gpus, 4);
}

TEST_F(OnGpus, a_sum_is_spread_where_a_checkpoint_is_of_another_number_of_replicas) {
  const TemporaryDirectory directory;
  const VariableOptions on_read{
      .name = "r", .synchronization = VariableSynchronization::on_read, .aggregation = VariableAggregation::sum};
  {
    MirroredStrategy strategy({"gpu:0"});
    const auto r = strategy.sync_on_read_variable<std::int32_t>(std::vector<std::int32_t>{7}, on_read);
    Checkpoint(strategy).track("r", r).save(directory.path(), 1);
  }
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const auto r = strategy.sync_on_read_variable<std::int32_t>(std::vector<std::int32_t>{0}, on_read);
  Checkpoint(strategy).track("r", r).restore(directory.path(), 1);
  EXPECT_EQ(copies_from<std::int32_t>(r), (std::vector<std::vector<std::int32_t>>{{4}, {3}}));
  EXPECT_EQ(r.value(), 7);
}

TEST_F(OnGpus, files_of_tensors_are_written_from_devices) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "x.safetensors";
  save_safetensors(file, {{{"x", Tensor::from(Floats{1, 2}).to(gpu(1))}}, {}});
  EXPECT_EQ(elements_of<float>(load_safetensors(file).tensors.at("x")), (Floats{1, 2}));
}

}  // namespace
}  // namespace lockstep::test
