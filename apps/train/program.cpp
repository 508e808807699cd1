// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/program.hpp"

#include "apps/options/program_options.hpp"
#include "apps/options/version.hpp"
#include "base/output_file.hpp"
#include "train/gpu/mlp.hpp"
#include "train/images.hpp"
#include "train/options.hpp"
#include "train/report.hpp"
#include "train/training.hpp"

#include <lockstep/lockstep.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace train {
namespace {

namespace exit_code = lockstep::exit_code;

/// Runs `body` on every rank and returns whether it succeeded on all. If not, the lowest rank on which it threw prints
/// the reason. Collective.
bool succeeds_everywhere(const lockstep::Communicator& comm, const std::function<void()>& body,
                         const ::options::Sources& sources = {}) {
  std::string text;
  try {
    body();
  } catch (const std::exception& error) {
    text = options::with_source(sources, error.what());
  }
  int failed_rank = text.empty() ? std::numeric_limits<int>::max() : comm.rank();
  comm.all_reduce(std::span(&failed_rank, 1), lockstep::ReduceOp::min);
  if (failed_rank == comm.rank()) std::fprintf(stderr, "lockstep-train: %s\n", options::printable(text).c_str());
  return failed_rank == std::numeric_limits<int>::max();
}

/// The devices of this rank's replicas: GPUs only if all ranks have some. Collective.
std::vector<lockstep::Device> devices_of_replicas(const lockstep::Communicator& comm, const Options& options) {
  const int replicas = options.replicas_per_rank[static_cast<std::size_t>(comm.rank())];
  const auto require_gpu = [&] {
    if (lockstep::gpu_count() > 0) return;
    throw std::runtime_error(fmt::format("rank {}: {}; training on CPUs", comm.rank(), lockstep::gpu_status()));
  };
  std::vector<lockstep::Device> devices;
  const auto take_gpus = [&] {
    try {
      devices = lockstep::gpus_of_replicas(comm, replicas);
    } catch (const lockstep::Error& error) {
      const std::string text = error.text().substr(error.text().find(": ") + 2);  // without the name of the function
      throw std::runtime_error(fmt::format("--device \"gpu\": {}; training on CPUs", text));
    }
  };
  if (options.on_gpus && succeeds_everywhere(comm, require_gpu) && succeeds_everywhere(comm, take_gpus)) return devices;
  for (int i = 0; i < replicas; ++i) devices.push_back({.kind = lockstep::DeviceKind::cpu, .index = i});
  return devices;
}

/// The backend of this rank's models on GPUs, of which `device` is one; none if the models of all ranks compute on
/// CPUs. Collective.
std::optional<gpu::Backend> backend_of_models(const lockstep::Communicator& comm, const Options& options,
                                              lockstep::Device device, const std::function<gpu::Backend()>& open) {
  if (device.kind != lockstep::DeviceKind::gpu || !options.models_on_gpus) return std::nullopt;
  gpu::Backend backend;
  const auto try_it = [&] {
    if (options.model != "mlp") throw std::runtime_error("the " + options.model + " computes on CPUs");
    try {
      backend = open();
      if (backend.cublas == nullptr) throw std::runtime_error(backend.why);
      (void)gpu::make_mlp(device, backend);
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("rank {}: {}; the mlp computes on CPUs", comm.rank(), error.what()));
    }
  };
  if (!succeeds_everywhere(comm, try_it)) return std::nullopt;
  return backend;
}

/// Does not change the file, if there is one.
void require_writable(const std::string& name) {
  if (name.empty()) return;
  try {
    lockstep::detail::require_regular_file(name);
    lockstep::detail::FileReplacement{name};
  } catch (const lockstep::detail::FileError& error) {
    throw OptionError("--json \"" + name + "\": the file cannot be written: " + error.what() +
                      "; give a name in a writable directory");
  }
}

}  // namespace

int run_lockstep_train(int argc, char** argv, const std::function<gpu::Backend()>& open) {
  lockstep::Environment environment(argc, argv);
  const lockstep::Communicator world = lockstep::world_communicator();
  Options options;
  const bool is_understood = succeeds_everywhere(
      world,
      [&] {
        options = parse_options(argc, argv, environment.size());
        if (options.help.empty() && !options.version && environment.rank() == 0) require_writable(options.json);
      },
      options.sources);
  if (!is_understood) return exit_code::usage;
  if (const std::string mismatch = options::find_mismatch(world, options.given); !mismatch.empty()) {
    if (environment.rank() == 0) std::fprintf(stderr, "lockstep-train: %s\n", mismatch.c_str());
    return exit_code::usage;
  }
  if (!options.help.empty() || options.version) {
    const std::string text = options.help.empty() ? options::version_text("lockstep-train") : options.help;
    if (environment.rank() == 0) std::fputs(text.c_str(), stdout);
    return exit_code::success;
  }
  std::optional<Images> images;
  const auto load = [&] {
    try {
      images = load_images(options.data, options.seed);
    } catch (const lockstep::Error& error) {
      throw std::runtime_error(
          fmt::format("--data \"{}\": {}; give the directory of the Fashion-MNIST files, or --data synthetic",
                      options.data, error.what()));
    }
  };
  if (!succeeds_everywhere(world, load, options.sources)) return exit_code::bad_data;
  const std::int64_t training_images = std::get<1>(images->training).element_count();
  const bool is_possible = succeeds_everywhere(
      world,
      [&] {
        if (options.global_batch > training_images) {
          throw OptionError("--global-batch \"" + std::to_string(options.global_batch) + "\": there are only " +
                            std::to_string(training_images) + " training images; give at most that");
        }
      },
      options.sources);
  if (!is_possible) return exit_code::usage;

  lockstep::MultiWorkerOptions placement;
  placement.devices = devices_of_replicas(world, options);
  lockstep::MultiWorkerMirroredStrategy strategy(placement);
  const std::int64_t steps = options.steps.value_or(options.epochs * training_images / options.global_batch);
  const std::optional<gpu::Backend> backend = backend_of_models(world, options, placement.devices->front(), open);
  const ModelMaker make_model = [&](lockstep::Device device) {
    return backend ? gpu::make_mlp(device, *backend) : train::make_model(options.model);
  };
  Report report(options, strategy, steps, backend ? backend->name : "");
  try {
    const Summary summary = train::train(strategy, options, make_model, *images, steps, report);
    if (summary.preempted) return exit_code::saved;
    report.finish(summary);
  } catch (const OptionError& error) {  // the same on all ranks
    const std::string text = options::with_source(options.sources, error.what());
    if (environment.rank() == 0) std::fprintf(stderr, "lockstep-train: %s\n", options::printable(text).c_str());
    return exit_code::bad_data;
  } catch (const lockstep::Error& error) {
    // an error of a checkpoint is the same on all ranks
    if (error.operation() != "checkpoint") throw;
    if (environment.rank() == 0) std::fprintf(stderr, "lockstep-train: %s\n", options::printable(error.what()).c_str());
    return exit_code::bad_data;
  }
  return exit_code::success;
}

}  // namespace train
