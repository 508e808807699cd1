// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A program on one device, for tests before it is scaled: with another strategy in the first line it is distributed.

#include <lockstep/lockstep.hpp>

#include <cstdio>

int main() {
  lockstep::OneDeviceStrategy strategy("cpu:0");
  const lockstep::Scope scope = strategy.scope();
  const auto sum = strategy.variable<double>(0.0, {.name = "sum", .aggregation = lockstep::VariableAggregation::sum});

  const auto dataset = lockstep::Dataset<lockstep::Tensor>::range(10).batch(2);
  for (const auto& batch : strategy.experimental_distribute_dataset(dataset)) {
    strategy.run(
        [&](const lockstep::Tensor& x) {
          double doubled = 0;
          for (const auto i : x.elements<std::int64_t>()) doubled += 2 * static_cast<double>(i);
          sum.assign_add(doubled);
        },
        batch);
  }
  std::printf("%d replica, sum %g\n", strategy.num_replicas_in_sync(), sum.value());
}
