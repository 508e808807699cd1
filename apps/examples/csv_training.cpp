// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Logistic regression, resumed from checkpoints: mpirun -n 2 example-csv-training FILE DIRECTORY STEPS. The CSV file
// has a header, a column "label" of 0 and 1, and 4 columns from "x0" on. Its first 100 rows are the test set.

#include <lockstep/lockstep.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <vector>

using Rows = std::tuple<lockstep::Tensor, lockstep::Tensor>;  // labels [n], features [n, 4]
enum class Use { training, test };

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  const int steps = argc == 4 ? std::atoi(argv[3]) : 0;
  if (steps < 1) {
    std::fprintf(stderr, "usage: example-csv-training FILE DIRECTORY STEPS; STEPS is a positive number\n");
    return lockstep::exit_code::usage;
  }
  lockstep::MultiWorkerMirroredStrategy strategy;
  const auto records = lockstep::csv_dataset<Rows>(
      {argv[1]}, {.columns = {{.name = "label"}, {.name = "x0", .count = 4}}, .has_header = true});
  auto batches = strategy.experimental_distribute_dataset(records.skip(100).shuffle(1).repeat().batch(20)).iterate();
  const auto test = strategy.experimental_distribute_dataset(records.take(100).batch(20));
  const auto weights = strategy.variable<float>(std::vector<float>(4), {.name = "weights"});
  lockstep::Sgd optimizer(strategy, {weights}, {.momentum = 0.9F});
  const lockstep::Mean loss(strategy);
  const lockstep::Accuracy accuracy(strategy);
  const auto step = [&](lockstep::ReplicaContext& replica, const Rows& rows, Use use) {
    const auto labels = std::get<0>(rows).elements<float>();
    std::vector<float> gradient(4);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto x = std::get<1>(rows).elements<float>().subspan(4 * i, 4);
      const float p = 1 / (1 + std::exp(-std::inner_product(x.begin(), x.end(), weights.elements().begin(), 0.0F)));
      loss.update(-std::log(labels[i] == 1 ? p : 1 - p));
      accuracy.update((p > 0.5F) == (labels[i] == 1) ? 1 : 0, 1);
      for (std::size_t k = 0; k < 4; ++k) gradient[k] += (p - labels[i]) * x[k] / 20;  // by the whole batch
    }
    if (use == Use::training) optimizer.apply_gradients(replica, {gradient}, 0.2F);
  };
  lockstep::Checkpoint checkpoint(strategy);
  checkpoint.track("model", weights).track("optimizer", optimizer).track("loss", loss).track("input", batches);
  const int first = static_cast<int>(checkpoint.restore_latest(argv[2]).value_or(0));
  for (int done = first + 1; done <= steps; ++done) {
    strategy.run(step, batches.get_next(), Use::training);
    if (done % 50 == 0 || done == steps) checkpoint.save(argv[2], done);
  }
  const double mean_loss = loss.result();  // of all steps from step 0 on, those before a restart included
  accuracy.reset();
  for (const auto& part : test) strategy.run(step, part, Use::test);
  const double test_accuracy = accuracy.result();
  if (strategy.is_chief())
    std::printf("steps %d to %d: loss %.6f, accuracy on the test set %.2f\n", first, steps, mean_loss, test_accuracy);
}
