// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/our_list.hpp"

#include "bench/perf/call.hpp"

#include <lockstep/device/gpu.hpp>

#include <chrono>
#include <utility>

namespace perf {

OurList::OurList(const ListTensors& tensors, const Job& job, ListMode mode, const Options& options,
                 lockstep::Communicator communicator)
    : ListCall(tensors, job, values_of(options)),
      communicator_(std::move(communicator)),
      reduce_options_{.order = options.order, .name = {}},
      mode_(mode),
      is_async_(tensors.what().form == Form::async) {
  if (mode == ListMode::buckets) make_packed();
  const std::size_t items = mode == ListMode::buckets ? buckets_.size() : tensors.what().counts.size();
  for (std::size_t i = 0; i < items; ++i) {
    std::vector<Region> of_replicas;
    for (std::size_t replica = 0; replica < tensors.replicas(); ++replica) {
      of_replicas.push_back(mode == ListMode::buckets ? packed_[replica].bucket(i) : tensors.of_replica(replica)[i]);
    }
    add_item(of_replicas);
  }
  if (!options.prepared) return;
  for (std::size_t call = 0; call < calls(); ++call) {
    plans_.push_back(communicator_.prepare_all_reduce(items_of(call), tensors.what().op, reduce_options_));
  }
}

void OurList::make_packed() {
  buckets_ = buckets_of(tensors().what().bytes_of_tensors(), bucket_bytes);
  for (std::size_t replica = 0; replica < tensors().replicas(); ++replica) {
    packed_.emplace_back(tensors().of_replica(replica), buckets_, tensors().memory(), replica);
  }
}

void OurList::add_item(std::span<const Region> of_replicas) {
  const lockstep::DType dtype = tensors().what().dtype;
  views_.push_back(std::make_unique<Views>());
  Views& views = *views_.back();
  for (const Region& tensor : of_replicas) {
    views.inputs.emplace_back(tensor.view(dtype));
    views.outputs.push_back(tensor.view(dtype));
  }
  items_.push_back({views.inputs, views.outputs});
}

void OurList::run() {
  if (is_async_) return run_async();
  for (std::size_t call = 0; call < calls(); ++call) {
    pack(call);
    reduce(call);
    unpack(call);
  }
  await_copies();
}

void OurList::reduce(std::size_t call) {
  if (!plans_.empty()) return plans_[call].run();
  communicator_.all_reduce(items_of(call), tensors().what().op, reduce_options_);
}

lockstep::Request OurList::post(std::size_t call) {
  if (!plans_.empty()) return plans_[call].run_async();
  return communicator_.all_reduce_async(items_of(call), tensors().what().op, reduce_options_);
}

void OurList::run_async() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::vector<lockstep::Request> requests;
  for (std::size_t call = 0; call < calls(); ++call) {
    pack(call);
    requests.push_back(post(call));
  }
  posted_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  for (std::size_t call = 0; call < calls(); ++call) {
    requests[call].wait();
    unpack(call);
  }
  await_copies();
}

void OurList::pack(std::size_t call) const {
  for (const PackedTensors& packed : packed_) packed.pack(call);
}

void OurList::unpack(std::size_t call) const {
  for (const PackedTensors& packed : packed_) packed.unpack(call);
}

/// Waits for copies on GPUs, which may continue after their call has returned.
void OurList::await_copies() const {
  if (packed_.empty()) return;
  for (const lockstep::Device device : tensors().memory().devices) lockstep::synchronize(device);
}

std::span<const lockstep::Item> OurList::items_of(std::size_t call) const {
  return mode_ == ListMode::one_plan ? std::span(items_) : std::span(items_).subspan(call, 1);
}

}  // namespace perf
