// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace train {
namespace {

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
      last_(Clock::now()) {
  if (!speaks_ || options.quiet) return;
  const lockstep::Communicator& comm = strategy.communicator();
  const auto plural = [](std::int64_t count) { return count == 1 ? "" : "s"; };
  fmt::print("lockstep-train: {} with {} on {}, {} step{}\n", options.model, options.optimizer, options.data, steps,
             plural(steps));
  const int replicas = strategy.num_replicas_in_sync();
  fmt::print("{} rank{} on {} node{}, {} replica{} as {}, global batch {}\n", comm.size(), plural(comm.size()),
             comm.nodes(), plural(comm.nodes()), replicas, plural(replicas), lockstep::to_string(comm.layout()),
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
  const std::int64_t steps_done = so_far.first_step + static_cast<std::int64_t>(so_far.losses.size());
  lockstep::report_value("loss", so_far.losses.back());
  lockstep::report_value("progress", share(static_cast<double>(steps_done), static_cast<double>(steps_)));
  lockstep::report_value("images_per_s", images_per_second(options_, so_far));
  if (!speaks_ || options_.quiet || Clock::now() - last_ < std::chrono::seconds(1)) return;
  last_ = Clock::now();
  const auto done = static_cast<double>(so_far.losses.size());
  fmt::print("step {:>6} of {}  loss {:.4f}  {:>7.0f} images/s  communication {:4.1f} %  {:.0f} s left\n", steps_done,
             steps_, so_far.losses.back(), images_per_second(options_, so_far),
             100 * share(so_far.communication_seconds, so_far.seconds),
             so_far.seconds / done * static_cast<double>(steps_ - steps_done));
  std::fflush(stdout);
}

void Report::resumed(std::int64_t step) const {
  if (!speaks_ || options_.quiet) return;
  fmt::print("resumed after step {}\n", step);
  std::fflush(stdout);
}

void Report::preempted(std::int64_t step, const std::string& folder) const {
  if (!speaks_) return;
  fmt::print("preempted: saved after step {} to {}\n", step, folder);
  std::fflush(stdout);
}

void Report::finish(const Summary& summary) const {
  if (!speaks_) return;
  fmt::print("loss {:.4f}  test accuracy {:.4f}  {:.0f} images/s  communication {:.1f} %  waiting for input {:.2f} %\n",
             summary.losses.empty() ? 0.0 : summary.losses.back(), summary.test_accuracy,
             images_per_second(options_, summary), 100 * share(summary.communication_seconds, summary.seconds),
             100 * share(summary.input_wait_seconds, summary.seconds));
  fmt::print("parameters 0x{:016x}\n", summary.parameters);
  std::fflush(stdout);
  if (options_.json.empty()) return;
  const nlohmann::ordered_json json{
      {"layout", std::vector<int>(strategy_.communicator().layout().counts().begin(),
                                  strategy_.communicator().layout().counts().end())},
      {"replicas", strategy_.num_replicas_in_sync()},
      {"device", is_on_gpus_ ? "gpu" : "cpu"},
      {"arithmetic", models_are_on_gpus_ ? "gpu" : "cpu"},
      {"steps", summary.losses.size()},
      {"first_step", summary.first_step},
      {"loss", summary.losses},
      {"test_accuracy", summary.test_accuracy},
      {"images_per_second", images_per_second(options_, summary)},
      {"communication_share", share(summary.communication_seconds, summary.seconds)},
      {"input_wait_share", share(summary.input_wait_seconds, summary.seconds)},
      {"parameters", fmt::format("0x{:016x}", summary.parameters)},
  };
  std::ofstream file(options_.json);
  file << json.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error(fmt::format("--json \"{}\": the file cannot be written", options_.json));
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
