// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The training loop: data-parallel training as a user of lockstep writes it.

#include "train/training.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace train {

using lockstep::ReplicaContext;

namespace {

/// Images are on the device of the model, which may differ from that of the parameters.
lockstep::InputOptions input_for(const Model& model) {
  return {.prefetch_batches = 8, .experimental_fetch_to_device = model.is_on_gpu()};
}

/// The fraction of test images that are classified correctly.
double test(lockstep::Strategy& strategy, const std::vector<lockstep::MirroredVariable<float>>& parameters,
            lockstep::PerReplica<Learner>& learners, const Images& images) {
  const lockstep::InputOptions input = input_for(learners.component(0).model());
  std::int64_t tested = 0;
  for (const auto& batch : strategy.experimental_distribute_dataset(test_batches(images, 1000), input)) {
    const auto correct = strategy.run(
        [&](const Rows& rows, Learner& learner) {
          return learner.correct(parameters, std::get<0>(rows), std::get<1>(rows));
        },
        batch, learners);
    tested += strategy.reduce(lockstep::ReduceOp::sum, correct);
  }
  return static_cast<double>(tested) / static_cast<double>(std::get<1>(images.test).element_count());
}

/// Restores the last checkpoint, if there is one, and returns its step. Throws OptionError on all ranks if that
/// checkpoint has the tensors of another model or optimizer.
std::optional<std::int64_t> resume(lockstep::Checkpoint& checkpoint, const Options& options) {
  try {
    return checkpoint.restore_latest(options.checkpoint_dir);
  } catch (const lockstep::Error& error) {
    if (error.code() != lockstep::Code::invalid_argument) throw;
    const auto folder = lockstep::Checkpoint::latest(options.checkpoint_dir);
    const std::string start = folder ? "restore: " + *folder + "/state.safetensors: " : "";
    if (!folder || !error.text().starts_with(start)) throw;  // the error is not about a tensor in the file
    const std::string difference = error.text().substr(start.size());
    throw OptionError("--resume: " + *folder + " was saved with another --model or --optimizer (" +
                      difference.substr(0, difference.find("; ")) +
                      "); give those of the saved run, or another --checkpoint-dir");
  }
}

}  // namespace

Summary train(lockstep::Strategy& strategy, const Options& options, const ModelMaker& make_model, const Images& images,
              std::int64_t steps, Report& report) {
  std::optional<lockstep::PreemptionGuard> guard;
  if (!options.checkpoint_dir.empty()) guard.emplace(strategy);
  auto learners = strategy.run([&](ReplicaContext& replica) { return Learner(make_model, replica); });
  const auto parameters = make_parameters(strategy, learners.component(0).model(), options.seed);
  const auto optimizer = make_optimizer(options, strategy, parameters);
  const lockstep::CosineDecay rate({.initial = static_cast<float>(initial_learning_rate(options)), .steps = steps});

  lockstep::GradientBuckets buckets(strategy.communicator(), contributions_of(learners),
                                    {.bucket_bytes = options.bucket_bytes});
  const auto batches = strategy.experimental_distribute_dataset(
      training_batches(images, options.global_batch, options.seed), input_for(learners.component(0).model()));
  auto next_batch = batches.iterate();
  Summary summary;
  lockstep::Checkpoint checkpoint(strategy, {.keep_last = options.keep_last});
  checkpoint.track("model", parameters).track("optimizer", *optimizer).track("input", next_batch);
  if (options.resume) {
    if (const auto step = resume(checkpoint, options)) {
      summary.first_step = *step;
      report.resumed(*step);
    }
  }
  const std::int64_t training_images = std::get<1>(images.training).element_count();
  auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = summary.first_step; step < steps; ++step) {
    strategy.run(
        [&](ReplicaContext& replica, const Rows& rows, Learner& learner) {
          learner.differentiate(parameters, std::get<0>(rows), std::get<1>(rows), options.global_batch,
                                [&](std::size_t k) { buckets.ready(replica, k); });
          buckets.finish(replica);
          optimizer->apply(replica, learner.gradients(), rate.at(step));
        },
        next_batch.get_next(), learners);
    summary.losses.push_back(learners.component(0).loss());
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    summary.communication_seconds = buckets.wait_seconds();
    summary.input_wait_seconds = next_batch.wait_seconds();
    report.progress(summary);
    const std::int64_t done = step + 1;
    const std::int64_t epoch = done * options.global_batch / training_images;  // complete epochs
    if (options.tests_epochs && done < steps && epoch != step * options.global_batch / training_images) {
      const auto before = std::chrono::steady_clock::now();
      summary.epoch_tests.push_back({epoch, done, test(strategy, parameters, learners, images)});
      start += std::chrono::steady_clock::now() - before;
      report.tested(summary);
    }
    summary.preempted = guard && guard->should_stop();
    if (summary.preempted || (options.save_every != 0 && done % options.save_every == 0)) {
      const auto folder = checkpoint.save(options.checkpoint_dir, done);
      if (summary.preempted) {
        report.preempted(done, folder);
        return summary;
      }
    }
  }
  summary.test_accuracy = test(strategy, parameters, learners, images);
  summary.parameters = hash_of(parameters);
  return summary;
}

}  // namespace train
