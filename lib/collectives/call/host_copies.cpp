// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/host_copies.hpp"

#include <lockstep/device/gpu.hpp>

#include "base/check.hpp"
#include "base/log.hpp"
#include "collectives/call/backoff.hpp"

#include <algorithm>
#include <new>

namespace lockstep::detail {

namespace {

std::size_t padded(std::size_t bytes) {
  return (bytes + MemoryResource::alignment - 1) / MemoryResource::alignment * MemoryResource::alignment;
}

}  // namespace

HostCopies::HostCopies(OperationKind kind, std::span<HostItem> items) {
  for (const HostItem& item : items) {
    for (const GpuPlace& place : item.input_places) bytes_ += padded(place.bytes);
    for (const GpuPlace& place : item.output_places) {
      bytes_ += padded(place.bytes);
      if (!traits(kind).has_own_outputs()) break;
    }
  }
  try {
    block_ = pinned_memory_resource()->allocate(bytes_);
  } catch (const std::bad_alloc&) {
    throw_error(Code::unavailable, "out of pinned host memory: {} bytes requested", bytes_);
  }
  auto* next = static_cast<std::byte*>(block_);
  for (HostItem& item : items) {
    place_inputs(item, next);
    place_outputs(kind, item, next);
  }
}

void HostCopies::place_inputs(HostItem& item, std::byte*& next) {
  for (std::size_t i = 0; i < item.input_places.size(); ++i) {
    inputs_.push_back({item.inputs[i], next, item.input_places[i]});
    item.inputs[i] = next;
    next += padded(item.input_places[i].bytes);
  }
  item.input_places.clear();
}

void HostCopies::place_outputs(OperationKind kind, HostItem& item, std::byte*& next) {
  if (item.output_places.empty()) return;
  const bool is_shared = !traits(kind).has_own_outputs();
  for (std::size_t i = 0; i < item.output_places.size(); ++i) {
    outputs_.push_back({next, item.outputs[i], item.output_places[i]});
    item.outputs[i] = next;
    if (!is_shared) next += padded(item.output_places[i].bytes);
  }
  if (is_shared) {
    next += padded(item.output_places.front().bytes);
    item.outputs.resize(1);
  }
  item.output_places.clear();
}

HostCopies::~HostCopies() {
  try {
    if (is_done()) {
      pinned_memory_resource()->deallocate(block_, bytes_);
      return;
    }
  } catch (const std::exception& error) {
    log_warning("a copy between a GPU and the host failed: {}", error.what());
  }
  log_warning("leaking {} bytes of pinned memory: a copy is still pending", bytes_);
}

void HostCopies::start(std::span<const Copy> copies) {
  cuda::Api& api = cuda::Backend::of_this_process().api();
  for (const Copy& copy : copies) {
    const cuda::Stream stream = cuda::stream_of(copy.place.device);
    auto& end = ends_[copy.place.device];
    if (!end) end = std::make_unique<cuda::OwnedEvent>(copy.place.device.index);
    if (copy.place.bytes != 0) {
      const cuda::CurrentDevice current(copy.place.device.index);
      cuda::check(api, api.memcpy_async(copy.target, copy.source, copy.place.bytes, stream), "cudaMemcpyAsync");
    }
    end->record(stream);
  }
}

void HostCopies::fetch(std::chrono::milliseconds timeout) {
  start(inputs_);
  const auto until = std::chrono::steady_clock::now() + timeout;
  Backoff backoff(Backoff::shared_core_spins);
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > until) {
      throw_error(Code::deadline_exceeded, "timed out after {} s waiting for the earlier work on the stream of {}",
                  std::chrono::duration<double>(timeout).count(), to_string(inputs_.front().place.device));
    }
    backoff.pause();
  }
}

void HostCopies::deliver() { start(outputs_); }

bool HostCopies::is_done() const {
  return std::all_of(ends_.begin(), ends_.end(), [](const auto& end) { return end.second->is_done(); });
}

}  // namespace lockstep::detail
