// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A step of Adam whose state is divided among the replicas, beside one with the whole state on each replica.
//
//   mpirun -n 2 sharded-optimizer [MILLIONS [ROUNDS]]
//
// Each rank has one replica and MILLIONS million f32 parameters (default: 25) in 32 variables. Measures apply_gradients
// of both in turns, and prints the medians of ROUNDS rounds (default: 21), and the bytes of the state on rank 0. Exit
// code 1 if the parameters differ by a bit.

#include <lockstep/lockstep.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Parameters = std::vector<lockstep::MirroredVariable<float>>;

constexpr std::size_t variables = 32;

Parameters make_parameters(lockstep::Strategy& strategy, std::size_t elements) {
  Parameters parameters;
  for (std::size_t k = 0; k < variables; ++k) {
    parameters.push_back(
        strategy.variable<float>(std::vector<float>(elements / variables, 1.0F), {.name = "w" + std::to_string(k)}));
  }
  return parameters;
}

double megabytes(const std::vector<lockstep::Variable>& state) {
  double bytes = 0;
  for (const lockstep::Variable& variable : state)
    bytes += static_cast<double>(variable.component(0).element_count()) * 4;
  return bytes / 1e6;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  lockstep::MultiWorkerMirroredStrategy strategy;
  const auto elements = static_cast<std::size_t>(argc > 1 ? std::max(1, std::atoi(argv[1])) : 25) * 1'000'000;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 21;

  const Parameters whole_parameters = make_parameters(strategy, elements);
  const Parameters sharded_parameters = make_parameters(strategy, elements);
  lockstep::Adam whole(strategy, whole_parameters);
  lockstep::ShardedOptimizer sharded(strategy, sharded_parameters, lockstep::AdamOptions{});
  std::vector<lockstep::Tensor> gradients;  // in the arena
  std::vector<lockstep::TensorView> views;
  for (std::size_t k = 0; k < variables; ++k) {
    gradients.emplace_back(lockstep::DType::f32, lockstep::Shape{static_cast<std::int64_t>(elements / variables)});
    views.push_back(gradients.back().view());
  }
  const auto refill = [&](int round) {
    for (lockstep::Tensor& gradient : gradients) {
      const std::span<float> values = gradient.elements<float>();
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(static_cast<int>(i % 1000) - 500 + round + environment.rank()) * 1e-3F;
    }
  };
  const auto milliseconds = [&](int round, const std::function<void(lockstep::ReplicaContext&)>& step) {
    refill(round);
    strategy.communicator().barrier();
    const auto begin = Clock::now();
    strategy.run([&](lockstep::ReplicaContext& replica) { step(replica); });
    strategy.communicator().barrier();
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  };

  std::vector<double> whole_times;
  std::vector<double> sharded_times;
  for (int round = -1; round < rounds; ++round) {
    const double whole_time =
        milliseconds(round, [&](auto& replica) { whole.apply_gradients(replica, views, 0.001F); });
    const double sharded_time =
        milliseconds(round, [&](auto& replica) { sharded.apply_gradients(replica, views, 0.001F); });
    if (round < 0) continue;  // the first round warms up
    whole_times.push_back(whole_time);
    sharded_times.push_back(sharded_time);
  }

  bool is_equal = true;
  for (std::size_t k = 0; k < variables; ++k) {
    const auto a = whole_parameters[k].elements();
    const auto b = sharded_parameters[k].elements();
    is_equal = is_equal && std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  if (strategy.is_chief()) {
    std::printf("%d ranks, %zu parameters, Adam: whole / sharded\n", environment.size(), elements);
    std::printf("step   %8.2f ms / %8.2f ms, ratio %.2f (medians of %d rounds in turns)\n", median(whole_times),
                median(sharded_times), median(sharded_times) / median(whole_times), rounds);
    std::printf("state  %8.1f MB / %8.1f MB, ratio %.3f\n", megabytes(whole.state()), megabytes(sharded.state()),
                megabytes(sharded.state()) / megabytes(whole.state()));
  }
  if (!is_equal) std::fprintf(stderr, "sharded-optimizer: the parameters differ\n");
  return is_equal ? 0 : 1;
}
