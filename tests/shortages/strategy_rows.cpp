// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategies, their variables, and what trains with them.

#include <lockstep/lockstep.hpp>

#include "shortages/trial.hpp"
#include "support/logical_cpus.hpp"

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::shortages {
namespace {

MultiWorkerOptions two_replicas() { return {.devices = test::logical_cpus(2)}; }

/// A strategy over all ranks with two replicas on each, and what its calls need.
struct Worker {
  explicit Worker(Rank& of) : rank(of), strategy(of.communicator(), two_replicas()) {}

  void tries(test::FunctionRef<void()> call) { rank.tries(call, strategy.communicator()); }
  [[nodiscard]] PerReplica<Tensor> values() {
    return strategy.run([](ReplicaContext&) { return Tensor::from(std::vector<float>(6, 1.0F)); });
  }

  Rank& rank;
  MultiWorkerMirroredStrategy strategy;
};

void create_workers(Rank& rank) {
  const Communicator& comm = rank.communicator();
  const MultiWorkerOptions options = two_replicas();
  rank.tries([&] {
    const MultiWorkerMirroredStrategy strategy(comm, options);
    // the creation may have completed on some ranks; then the next call fails
    strategy.communicator().barrier();
  });
}

void create_mirrored(Rank& rank) {
  const std::vector<Device> devices = test::logical_cpus(3);
  rank.tries_alone([&] { const MirroredStrategy strategy(devices); });
}

void create_one_device(Rank& rank) {
  rank.tries_alone([&] { const OneDeviceStrategy strategy("cpu:0"); });
}

void run_mirrored(Rank& rank) {
  MirroredStrategy strategy(test::logical_cpus(3));
  rank.tries_alone([&] {
    const auto sums = strategy.run([](ReplicaContext& replica) { return replica.all_reduce("SUM", 1.0F); });
    if (sums.component(0) != 3.0F) throw std::runtime_error("wrong sum");
  });
}

void run(Rank& rank) {
  Worker worker(rank);
  const float sum = 2.0F * static_cast<float>(rank.communicator().size());
  worker.tries([&] {
    const auto sums = worker.strategy.run([](ReplicaContext& replica) { return replica.all_reduce("SUM", 1.0F); });
    if (sums.component(0) != sum) throw std::runtime_error("wrong sum");
  });
}

void merge_call(Rank& rank) {
  Worker worker(rank);
  worker.tries([&] {
    static_cast<void>(worker.strategy.run([](ReplicaContext& replica) {
      return replica.merge_call(
          [](Strategy& strategy, const PerReplica<float>& values) { return strategy.reduce("SUM", values); }, 1.0F);
    }));
  });
}

void step_all_gather(Rank& rank) {
  Worker worker(rank);
  worker.tries([&] {
    static_cast<void>(worker.strategy.run(
        [](ReplicaContext& replica) { return replica.all_gather(Tensor::from(std::vector<float>(3, 1.0F)), 0); }));
  });
}

void reduce(Rank& rank) {
  Worker worker(rank);
  const auto values = worker.values();
  worker.tries([&] { static_cast<void>(worker.strategy.reduce("SUM", values)); });
}

void reduce_axis(Rank& rank) {
  Worker worker(rank);
  const auto values = worker.values();
  const Axes axes(0);
  worker.tries([&] { static_cast<void>(worker.strategy.reduce("MEAN", values, axes)); });
}

void gather(Rank& rank) {
  Worker worker(rank);
  const auto values = worker.values();
  worker.tries([&] { static_cast<void>(worker.strategy.gather(values, 0)); });
}

void reduce_to(Rank& rank) {
  Worker worker(rank);
  const auto values = worker.values();
  worker.tries([&] { static_cast<void>(worker.strategy.extended().reduce_to("SUM", values, "cpu:0")); });
}

void batch_reduce_to(Rank& rank) {
  Worker worker(rank);
  const auto values = worker.values();
  const std::vector pairs{std::pair(values, values), std::pair(values, values)};
  worker.tries([&] { static_cast<void>(worker.strategy.extended().batch_reduce_to("SUM", pairs)); });
}

void create_variable(Rank& rank) {
  Worker worker(rank);
  const std::vector<float> initial(6, 1.0F);
  const VariableOptions options{.name = "v"};
  worker.tries([&] { static_cast<void>(worker.strategy.variable<float>(initial, options)); });
}

void assign(Rank& rank) {
  Worker worker(rank);
  const auto variable = worker.strategy.variable<float>(std::vector<float>(6, 1.0F), {.name = "v"});
  const Tensor value = Tensor::from(std::vector<float>(6, 2.0F));
  worker.tries([&] { variable.assign(value); });
}

void assign_in_step(Rank& rank) {
  Worker worker(rank);
  const auto variable = worker.strategy.variable<float>(std::vector<float>(6, 1.0F),
                                                        {.name = "v", .aggregation = VariableAggregation::mean});
  const Tensor value = Tensor::from(std::vector<float>(6, 2.0F));
  worker.tries([&] { worker.strategy.run([&](ReplicaContext&) { variable.assign_add(value); }); });
}

void read_on_read(Rank& rank) {
  Worker worker(rank);
  const auto variable = worker.strategy.sync_on_read_variable<float>(
      std::vector<float>(6, 1.0F), {.name = "v", .aggregation = VariableAggregation::sum});
  worker.tries([&] { static_cast<void>(variable.read()); });
}

void scatter_add(Rank& rank) {
  Worker worker(rank);
  const Variable variable = worker.strategy.variable(Tensor(DType::f32, Shape{6, 2}), {.name = "v"});
  const IndexedSlices slices{Tensor::from(std::vector<float>(4, 1.0F)).reshaped(Shape{2, 2}),
                             Tensor::from(std::vector<std::int64_t>{1, 4}), 6};
  worker.tries([&] { variable.scatter_add(slices); });
}

void create_buckets(Rank& rank) {
  const Communicator& comm = rank.communicator();
  std::vector<Tensor> tensors{Tensor::from(std::vector<float>(6, 1.0F)), Tensor::from(std::vector<float>(3, 1.0F))};
  const std::vector<TensorView> views{tensors[0].view(), tensors[1].view()};
  rank.tries([&] { const GradientBuckets buckets(comm, views); });
}

void buckets(Rank& rank) {
  const Communicator& comm = rank.communicator();
  std::vector<Tensor> tensors{Tensor::from(std::vector<float>(6, 1.0F)), Tensor::from(std::vector<float>(3, 1.0F))};
  const std::vector<TensorView> views{tensors[0].view(), tensors[1].view()};
  std::optional<GradientBuckets> used;
  used.emplace(comm, views, GradientBucketsOptions{.bucket_bytes = 1});
  bool is_first = true;
  rank.tries([&] {
    // tensors that were declared ready stay ready after an error
    if (!std::exchange(is_first, false)) used.emplace(comm, views, GradientBucketsOptions{.bucket_bytes = 1});
    used->finish(0);
  });
}

void optimizer_step(Rank& rank) {
  Worker worker(rank);
  const auto parameter = worker.strategy.variable<float>(std::vector<float>(6, 1.0F), {.name = "w"});
  Adam adam(worker.strategy, {parameter});
  worker.tries([&] {
    worker.strategy.run([&](ReplicaContext& replica) {
      std::vector<float> gradient(6, 1.0F);
      const std::vector<std::span<float>> gradients{gradient};
      replica.all_reduce(ReduceOp::mean, gradients);
      adam.apply(replica, gradients, 0.01F);
    });
  });
}

void create_optimizer(Rank& rank) {
  Worker worker(rank);
  std::vector lists(2, std::vector{worker.strategy.variable<float>(std::vector<float>(6, 1.0F), {.name = "w"})});
  worker.tries([&] {
    std::vector parameters = std::move(lists.back());
    lists.pop_back();
    const Adam adam(worker.strategy, std::move(parameters));
  });
}

void create_sharded(Rank& rank) {
  Worker worker(rank);
  std::vector lists(2, std::vector{worker.strategy.variable<float>(std::vector<float>(9, 1.0F), {.name = "w"})});
  worker.tries([&] {
    std::vector parameters = std::move(lists.back());
    lists.pop_back();
    const ShardedOptimizer adam(worker.strategy, std::move(parameters), AdamOptions());
  });
}

void sharded_step(Rank& rank) {
  Worker worker(rank);
  const auto parameter = worker.strategy.variable<float>(std::vector<float>(9, 1.0F), {.name = "w"});
  ShardedOptimizer adam(worker.strategy, {parameter}, AdamOptions());
  worker.tries([&] {
    worker.strategy.run([&](ReplicaContext& replica) {
      std::vector<float> gradient(9, 1.0F);
      const std::vector<std::span<float>> gradients{gradient};
      adam.apply_gradients(replica, gradients, 0.01F);
    });
  });
}

}  // namespace

std::vector<Row> strategy_rows() {
  const std::vector<int> ranks{0, 0};
  const std::vector<int> two_nodes{0, 1};
  return {{"MultiWorkerMirroredStrategy", ranks, create_workers},
          {"MultiWorkerMirroredStrategy/two_nodes", two_nodes, create_workers},
          {"MirroredStrategy", {0}, create_mirrored},
          {"OneDeviceStrategy", {0}, create_one_device},
          {"run/mirrored", {0}, run_mirrored},
          {"run", ranks, run},
          {"run/two_nodes", two_nodes, run},
          {"merge_call", ranks, merge_call},
          {"step_all_gather", ranks, step_all_gather},
          {"strategy_reduce", ranks, reduce},
          {"strategy_reduce_axis", ranks, reduce_axis},
          {"strategy_gather", ranks, gather},
          {"reduce_to", ranks, reduce_to},
          {"batch_reduce_to", ranks, batch_reduce_to},
          {"variable", ranks, create_variable},
          {"assign", ranks, assign},
          {"assign_in_step", ranks, assign_in_step},
          {"read_on_read", ranks, read_on_read},
          {"scatter_add", ranks, scatter_add},
          {"GradientBuckets", ranks, create_buckets},
          {"buckets_finish", ranks, buckets},
          {"Adam", ranks, create_optimizer},
          {"adam_step", ranks, optimizer_step},
          {"ShardedOptimizer", ranks, create_sharded},
          {"sharded_step", ranks, sharded_step}};
}

}  // namespace lockstep::shortages
