// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/our_buckets.hpp"

#include "bench/perf/call.hpp"

#include <chrono>
#include <optional>

namespace perf {
namespace {

/// The tensors of the replica, the last first.
std::vector<lockstep::TensorView> views_of(const ListTensors& tensors) {
  std::vector<lockstep::TensorView> views;
  const std::span<const Region> all = tensors.of_replica(0);
  for (std::size_t i = all.size(); i-- > 0;) views.push_back(all[i].view(tensors.what().dtype));
  return views;
}

lockstep::Communicator with_order(const lockstep::Communicator& communicator, std::optional<lockstep::Order> order) {
  lockstep::CommunicatorOptions options = communicator.options();
  options.local_replicas = communicator.local_replicas();
  options.order = order;
  return communicator.duplicate(options);
}

}  // namespace

OurBuckets::OurBuckets(const ListTensors& tensors, const Job& job, const Options& options,
                       const lockstep::Communicator& communicator)
    : ListCall(tensors, job, values_of(options)),
      is_async_(tensors.what().form == Form::async),
      buckets_(with_order(communicator, options.order), views_of(tensors), {.op = tensors.what().op}) {}

void OurBuckets::run() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < tensors().what().counts.size(); ++i) buckets_.ready(0, i);
  if (is_async_) posted_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  buckets_.finish(0);
}

}  // namespace perf
