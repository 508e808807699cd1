// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/gpus.hpp"

#include "bench/harness/statistics.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <algorithm>
#include <chrono>
#include <new>

namespace perf {
namespace {

using lockstep::Device;
using lockstep::DeviceKind;

bool are_on_one_gpu(const Job& job) {
  return job.ranks == 1 && std::all_of(job.devices.begin(), job.devices.end(),
                                       [&](Device device) { return device.index == job.devices.front().index; });
}

}  // namespace

Gpus describe_gpus(const Job& job) {
  if (job.devices.front().kind != DeviceKind::gpu) return {};
  Gpus gpus{.status = lockstep::gpu_status()};
  for (const Device device : job.devices) gpus.devices.push_back(lockstep::to_string(device));
  if (!are_on_one_gpu(job)) return gpus;
  try {
    gpus.copy_gbs = copy_gbs(job.devices.front());
  } catch (const std::bad_alloc&) {
    gpus.status += "; out of memory for measuring a copy";
  }
  return gpus;
}

double copy_gbs(Device gpu) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t size_bytes = std::int64_t{256} << 20;  // more than any cache holds
  constexpr double wanted_seconds = 5e-3;                       // long compared with the synchronization at the end
  constexpr int rounds = 5;
  const auto resource = lockstep::gpu_memory_resource(gpu);
  const lockstep::Tensor source(lockstep::DType::u8, lockstep::Shape{size_bytes}, resource, gpu);
  lockstep::Tensor target(lockstep::DType::u8, lockstep::Shape{size_bytes}, resource, gpu);
  const auto seconds_of = [&](int copies) {
    lockstep::synchronize(gpu);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < copies; ++i) lockstep::copy(target.view(), source.view());
    lockstep::synchronize(gpu);
    return std::chrono::duration<double>(Clock::now() - start).count() / copies;
  };
  static_cast<void>(seconds_of(1));
  const int copies = std::clamp(static_cast<int>(wanted_seconds / seconds_of(1)), 1, 100);
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(seconds_of(copies));
  return 2 * static_cast<double>(size_bytes) / percentile(seconds, 0.5) * 1e-9;
}

std::int64_t least_bytes(const Case& what, const Job& job) {
  const Traits& kind = traits(what.collective);
  const bool is_in_place = what.placement == Placement::in_place;
  if (is_in_place && job.replicas() == 1) return 0;
  std::int64_t bytes = 0;
  for (int replica = 0; replica < job.replicas(); ++replica) {
    const bool gives = kind.input_holder == Holder::every_rank || replica == job.first_replica(job.root);
    // an output in place is written only if it changes
    const bool has_it = is_in_place && !what.reduces() && gives;
    if (gives) bytes += what.input_bytes(replica, job.replicas());
    if (!has_it) bytes += what.output_bytes(replica, job.replicas());
  }
  return bytes;
}

}  // namespace perf
