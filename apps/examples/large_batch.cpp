// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Large batches with less memory and traffic, under mpirun: example-large-batch. Four micro-batches per step are added
// without an exchange, gradients travel as bf16, and each replica keeps its share of Adam's state. Fits y = w x.

#include <lockstep/lockstep.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

constexpr int columns = 64, rows = 16, micro_batches = 4, steps = 300;

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  lockstep::MultiWorkerMirroredStrategy strategy;
  const int replicas = strategy.num_replicas_in_sync();
  const auto w = strategy.variable<float>(std::vector<float>(columns), {.name = "w"});
  lockstep::ShardedOptimizer optimizer(strategy, {w}, lockstep::AdamOptions{});
  std::vector<float> gradient(columns);  // of the one replica of this rank
  const std::vector<lockstep::TensorView> gradients{lockstep::view_of(std::span(gradient))};
  lockstep::GradientBuckets buckets(strategy.communicator(), gradients, {.hook = lockstep::bf16_compression()});
  auto generator = lockstep::Generator::from_seed(1);
  std::vector<float> x(static_cast<std::size_t>(rows * columns));

  const auto micro_batch = [&](lockstep::ReplicaContext& replica, int step, bool is_last) {
    generator.normal(x);  // other rows on each replica
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    for (std::size_t row = 0; row < x.size(); row += columns) {
      float error = 0;  // the solution is w[i] = i / 64
      for (std::size_t i = 0; i < columns; ++i) error += (w.elements()[i] - static_cast<float>(i) / 64) * x[row + i];
      for (std::size_t i = 0; i < columns; ++i)
        gradient[i] += 2 * error * x[row + i] / static_cast<float>(rows * micro_batches * replicas);
    }
    buckets.finish(replica);  // adds this micro-batch to its sum; exchanges the sums in the last one
    if (is_last) optimizer.apply(replica, gradients, 0.1F / std::sqrt(static_cast<float>(1 + step)));
  };
  for (int step = 0; step < steps; ++step) {
    for (int m = 0; m < micro_batches; ++m) {
      std::optional<lockstep::GradientBuckets::NoSync> no_sync;
      if (m + 1 < micro_batches) no_sync.emplace(buckets);
      strategy.run([&](lockstep::ReplicaContext& replica) { micro_batch(replica, step, m + 1 == micro_batches); });
    }
  }
  float distance = 0;
  for (std::size_t i = 0; i < columns; ++i)
    distance = std::max(distance, std::fabs(w.elements()[i] - static_cast<float>(i) / 64));
  const std::int64_t kept = 2 * optimizer.state().front().component(0).element_count();  // Adam has two slots
  if (strategy.is_chief()) {
    std::printf("%d replica(s): distance to the solution below 0.01: %s; state of this rank: %lld of %d numbers\n",
                replicas, distance < 0.01F ? "yes" : "no", static_cast<long long>(kept), 2 * columns);
  }
}
