// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A custom training loop on the devices of one process: example-mirrored [DEVICE...]. Fits y = a x + b.

#include <lockstep/lockstep.hpp>

#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

namespace {

using Points = std::tuple<lockstep::Tensor, lockstep::Tensor>;

lockstep::Dataset<Points> points() {
  std::vector<float> x(1000), y(1000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) / 1000;
    y[i] = 3 * x[i] + 1;
  }
  return lockstep::Dataset<Points>::from_tensor_slices({lockstep::Tensor::from(x), lockstep::Tensor::from(y)});
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> devices(argv + 1, argv + argc);
  if (devices.empty()) devices = {"cpu:0", "cpu:1"};
  lockstep::MirroredStrategy strategy(devices);

  const auto line = strategy.variable<float>(std::vector<float>{0, 0}, {.name = "line"});
  lockstep::Sgd optimizer(strategy, {line}, {.momentum = 0.5F});
  // 15 batches of 64 and one of 40, each divided among the replicas
  const auto batches = strategy.experimental_distribute_dataset(points().shuffle(1).batch(64));

  const auto step = [&](lockstep::ReplicaContext& replica, const Points& part) {
    const auto x = std::get<0>(part).elements<float>();
    const auto y = std::get<1>(part).elements<float>();
    std::vector<float> gradient(2);
    std::vector<float> losses;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float error = line.elements()[0] * x[i] + line.elements()[1] - y[i];
      losses.push_back(error * error);
      gradient[0] += 2 * error * x[i];
      gradient[1] += 2 * error;
    }
    const auto loss = lockstep::global_mean(replica, losses);  // of the whole batch, however it was divided
    for (float& g : gradient) g *= static_cast<float>(loss.share());
    optimizer.apply_gradients(replica, {gradient}, 0.2F);
    return loss.value();
  };
  double loss = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (const auto& batch : batches) loss = strategy.run(step, batch).component(0);
  }
  std::printf("y = %.2f x + %.2f, loss below 1e-6: %s\n", line.elements()[0], line.elements()[1],
              loss < 1e-6 ? "yes" : "no");
}
