// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-train: trains an image classifier on all ranks of an mpirun.

#include "train/images.hpp"
#include "train/options.hpp"
#include "train/report.hpp"
#include "train/training.hpp"

#include <lockstep/lockstep.hpp>

#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace {

/// Exit codes; an exception that nobody expects aborts the job with 1.
enum ExitCode : int { ok = 0, usage = 2, bad_data = 5 };

/// Runs `body` on every rank; whether it ended well on all. If not, the lowest rank on which it threw prints why.
/// Collective.
bool succeeds_everywhere(lockstep::Communicator comm, const std::function<void()>& body) {
  std::string text;
  try {
    body();
  } catch (const std::exception& error) {
    text = error.what();
  }
  int failed_rank = text.empty() ? std::numeric_limits<int>::max() : comm.rank();
  comm.all_reduce(std::span(&failed_rank, 1), lockstep::ReduceOp::min);
  if (failed_rank == comm.rank()) std::fprintf(stderr, "lockstep-train: %s\n", text.c_str());
  return failed_rank == std::numeric_limits<int>::max();
}

lockstep::MultiWorkerOptions local_devices(const train::Options& options, int rank) {
  lockstep::MultiWorkerOptions result;
  auto& devices = result.devices.emplace();
  for (int i = 0; i < options.replicas_per_rank[static_cast<std::size_t>(rank)]; ++i)
    devices.push_back({lockstep::DeviceKind::cpu, i});
  return result;
}

void require_writable(const std::string& name) {
  if (!name.empty() && !std::ofstream(name, std::ios::app))
    throw train::OptionError("--json \"" + name + "\": the file cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::Environment environment(argc, argv);
  const lockstep::Communicator world = lockstep::world_communicator();
  train::Options options;
  const bool is_understood = succeeds_everywhere(world, [&] {
    options = train::parse_options(argc, argv, environment.size());
    if (options.help.empty() && environment.rank() == 0) require_writable(options.json);
  });
  if (!is_understood) return usage;
  if (!options.help.empty()) {
    if (environment.rank() == 0) std::fputs(options.help.c_str(), stdout);
    return ok;
  }
  std::optional<train::Images> images;
  if (!succeeds_everywhere(world, [&] { images = train::load_images(options.data, options.seed); })) return bad_data;
  const std::int64_t training_images = std::get<1>(images->training).element_count();
  const bool is_possible = succeeds_everywhere(world, [&] {
    if (options.global_batch > training_images) {
      throw train::OptionError("--global-batch \"" + std::to_string(options.global_batch) + "\": there are only " +
                               std::to_string(training_images) + " training images");
    }
  });
  if (!is_possible) return usage;

  lockstep::MultiWorkerMirroredStrategy strategy(local_devices(options, environment.rank()));
  const std::int64_t steps = options.steps.value_or(options.epochs * training_images / options.global_batch);
  train::Report report(options, strategy, steps);
  try {
    const train::Summary summary = train::train(strategy, options, *images, steps, report);
    if (summary.preempted) return lockstep::PreemptionGuard::exit_code;
    report.finish(summary);
  } catch (const lockstep::Error& error) {
    // what is wrong with a checkpoint is wrong on all ranks
    if (error.operation() != "checkpoint") throw;
    if (environment.rank() == 0) std::fprintf(stderr, "lockstep-train: %s\n", error.what());
    return bad_data;
  }
  return ok;
}
