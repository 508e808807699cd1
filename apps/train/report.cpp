// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/report.hpp"

#include "apps/options/counted.hpp"
#include "base/output_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace train {
namespace {

using ::options::counted;

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double images_per_second(const Options& options, const Summary& summary) {
  return share(static_cast<double>(summary.losses.size()) * static_cast<double>(options.global_batch), summary.seconds);
}

}  // namespace

Report::Report(const Options& options, lockstep::Strategy& strategy, std::int64_t steps, const std::string& backend)
    : options_(options),
      strategy_(strategy),
      steps_(steps),
      speaks_(strategy.is_chief()),
      is_on_gpus_(strategy.extended().worker_devices().front().kind == lockstep::DeviceKind::gpu),
      models_are_on_gpus_(!backend.empty()),
      progress_(options.progress.value_or(style_of_output())) {
  if (!speaks_ || options.quiet) return;
  const lockstep::Communicator& comm = strategy.communicator();
  fmt::print("lockstep-train: {} with {} on {}, {}\n", options.model, options.optimizer, options.data,
             counted(steps, "step"));
  fmt::print("{} on {}, {} as {}, global batch {}\n", counted(comm.size(), "rank"), counted(comm.nodes(), "node"),
             counted(strategy.num_replicas_in_sync(), "replica"), lockstep::to_string(comm.layout()),
             options.global_batch);
  if (is_on_gpus_) {
    std::vector<std::string> names;
    for (const lockstep::Device device : strategy.extended().worker_devices()) names.push_back(to_string(device));
    fmt::print("parameters on GPUs, arithmetic on {}; rank 0 has {} of {}\n",
               models_are_on_gpus_ ? "GPUs by " + backend : "CPUs", fmt::join(names, ", "), lockstep::gpu_status());
  }
  std::fflush(stdout);
}

void Report::progress(const Summary& so_far) {
  const auto done = static_cast<std::int64_t>(so_far.losses.size());
  const std::int64_t step = so_far.first_step + done;
  const double rate = images_per_second(options_, so_far);
  lockstep::report_value("loss", so_far.losses.back());
  lockstep::report_value("progress", share(static_cast<double>(step), static_cast<double>(steps_)));
  lockstep::report_value("images_per_s", rate);
  if (!speaks_ || options_.quiet || !progress_.is_due()) return;
  const double communication = 100 * share(so_far.communication_seconds, so_far.seconds);
  const double seconds_left = so_far.seconds / static_cast<double>(done) * static_cast<double>(steps_ - step);
  if (progress_.is_bar()) {
    progress_.draw(step, steps_,
                   fmt::format("{}/{}  loss {:.4f}  {:.0f} images/s  comm {:.0f} %  {:.0f} s left", step, steps_,
                               so_far.losses.back(), rate, communication, seconds_left));
  } else {
    progress_.print(
        fmt::format("step {:>6} of {}  loss {:.4f}  {:>7.0f} images/s  communication {:4.1f} %  {:.0f} s left", step,
                    steps_, so_far.losses.back(), rate, communication, seconds_left));
  }
}

void Report::resumed(std::int64_t step) {
  if (!speaks_ || options_.quiet) return;
  fmt::print("resumed after step {}\n", step);
  std::fflush(stdout);
}

void Report::tested(const Summary& so_far) {
  if (!speaks_ || options_.quiet) return;
  progress_.clear();
  const EpochTest& test = so_far.epoch_tests.back();
  fmt::print("epoch {:>5} of {}  loss {:.4f}  test accuracy {:.4f}\n", test.epoch, options_.epochs,
             so_far.losses.back(), test.accuracy);
  std::fflush(stdout);
}

void Report::preempted(std::int64_t step, const std::string& folder) {
  if (!speaks_) return;
  progress_.clear();
  fmt::print("preempted: saved after step {} to {}\n", step, folder);
  std::fflush(stdout);
}

void Report::finish(const Summary& summary) {
  if (!speaks_) return;
  progress_.clear();
  fmt::print("loss {:.4f}  test accuracy {:.4f}  {:.0f} images/s  communication {:.1f} %  waiting for input {:.2f} %\n",
             summary.losses.empty() ? 0.0 : summary.losses.back(), summary.test_accuracy,
             images_per_second(options_, summary), 100 * share(summary.communication_seconds, summary.seconds),
             100 * share(summary.input_wait_seconds, summary.seconds));
  fmt::print("parameters 0x{:016x}\n", summary.parameters);
  std::fflush(stdout);
  if (options_.json.empty()) return;
  nlohmann::ordered_json epoch_tests = nlohmann::ordered_json::array();
  for (const EpochTest& test : summary.epoch_tests)
    epoch_tests.push_back({{"epoch", test.epoch}, {"step", test.step}, {"test_accuracy", test.accuracy}});
  const lockstep::BuildInfo build = lockstep::build_info();
  const nlohmann::ordered_json json{
      {"program", "lockstep-train"},
      {"version", build.version},
      {"mpi", build.mpi_version},
      {"model", options_.model},
      {"optimizer", options_.optimizer},
      {"global_batch", options_.global_batch},
      {"ranks", strategy_.communicator().size()},
      {"nodes", strategy_.communicator().nodes()},
      {"layout", std::vector<int>(strategy_.communicator().layout().counts().begin(),
                                  strategy_.communicator().layout().counts().end())},
      {"replicas", strategy_.num_replicas_in_sync()},
      {"device", is_on_gpus_ ? "gpu" : "cpu"},
      {"arithmetic", models_are_on_gpus_ ? "gpu" : "cpu"},
      {"steps", summary.losses.size()},
      {"first_step", summary.first_step},
      {"loss", summary.losses},
      {"epochs", epoch_tests},
      {"test_accuracy", summary.test_accuracy},
      {"images_per_second", images_per_second(options_, summary)},
      {"communication_share", share(summary.communication_seconds, summary.seconds)},
      {"input_wait_share", share(summary.input_wait_seconds, summary.seconds)},
      {"parameters", fmt::format("0x{:016x}", summary.parameters)},
  };
  try {
    lockstep::detail::FileReplacement file(options_.json);
    file.write(json.dump(2) + "\n");
    file.finish(lockstep::detail::Durability::none);
  } catch (const lockstep::detail::FileError& error) {
    throw std::runtime_error(fmt::format("--json \"{}\": the file cannot be written: {}", options_.json, error.what()));
  }
}

std::uint64_t hash_of(const std::vector<lockstep::MirroredVariable<float>>& variables) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const auto& variable : variables) {
    const lockstep::Tensor on_host = variable.component(0).to(lockstep::Device{});
    for (const float element : on_host.elements<float>()) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &element, sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3u;
      hash ^= hash >> 32;
    }
  }
  return hash;
}

}  // namespace train
