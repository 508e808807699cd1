// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A loop of tf.compat.v1, as in programs that ran in sessions: example-v1-loop [DEVICE...]. Fits y = a x. Its use of
// iterators and configurations is deprecated, as in tf.distribute; new programs begin like mirrored.cpp.

#include <lockstep/lockstep.hpp>

#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

using Points = std::tuple<lockstep::Tensor, lockstep::Tensor>;

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> devices(argv + 1, argv + argc);
  if (devices.empty()) devices = {"cpu:0", "cpu:1"};
  lockstep::v1::MirroredStrategy strategy(devices);
  const lockstep::v1::Config config = strategy.update_config_proto({});  // a copy, for a session of this strategy

  const lockstep::Scope scope = strategy.scope();
  const auto slope =
      lockstep::make_variable<float>(0.0F, {.name = "slope", .aggregation = lockstep::VariableAggregation::mean});
  std::vector<float> x(60), y(60);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) / 60;
    y[i] = 2 * x[i];
  }
  // 5 batches of 12, divided evenly, so that the mean over the replicas is the mean of the batch
  auto iterator = strategy.make_dataset_iterator(strategy.experimental_make_numpy_dataset(std::tuple(x, y)).batch(12));

  const auto step = [&](const Points& part) {
    const auto xs = std::get<0>(part).elements<float>();
    const auto ys = std::get<1>(part).elements<float>();
    float gradient = 0;
    for (std::size_t i = 0; i < xs.size(); ++i) gradient += 2 * (slope.value() * xs[i] - ys[i]) * xs[i];
    slope.assign_sub(0.5F * gradient / static_cast<float>(xs.size()));  // by the mean over all replicas
  };
  int steps = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    iterator.initialize();
    try {
      for (;; ++steps) strategy.experimental_run(step, iterator);
    } catch (const lockstep::Error& error) {
      if (error.code() != lockstep::Code::out_of_range) throw;  // else the epoch is over
    }
  }
  std::printf("y = %.2f x after %d steps, variables of each session's own: %s\n", slope.value(), steps,
              config.isolate_session_state ? "yes" : "no");
}
