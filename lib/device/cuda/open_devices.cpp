// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/open_devices.hpp"

#include "base/check.hpp"
#include "base/leak.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/memory.hpp"
#include "device/cuda/wait_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

namespace lockstep::detail::cuda {
namespace {

std::byte* at(void* start, std::size_t offset) { return static_cast<std::byte*>(start) + offset; }
const std::byte* at(const void* start, std::size_t offset) { return static_cast<const std::byte*>(start) + offset; }

/// Whether the device no longer accesses the memory that the work before `end` uses.
bool is_over(const OwnedEvent& end) noexcept {
  try {
    return end.is_done();
  } catch (const std::exception&) {
    return true;  // a failed device accesses no memory
  }
}

constexpr std::size_t most_kept_pinned_bytes = std::size_t{256} << 20;

}  // namespace

Staging::Staging(int device)
    : device_(device), memory_(static_cast<std::byte*>(take_pinned(slot_count * 2 * buffer_bytes, device))) {
  std::byte* next = memory_;
  for (std::size_t i = 0; i < slot_count; ++i) {
    Slot& slot = slots_.emplace_back(device);
    for (Buffer& buffer : slot.buffers) {
      buffer.memory = next;
      next += buffer_bytes;
    }
    free_.push_back(&slot);
  }
}

Staging::~Staging() {
  const bool is_free = std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return std::all_of(slot.buffers.begin(), slot.buffers.end(),
                       [](const Buffer& buffer) { return is_over(buffer.end); });
  });
  is_free ? give_back_pinned(memory_, device_) : leak(memory_);
}

void Staging::to_device(void* target, const void* source, std::size_t bytes, Stream stream, Device place) {
  Api& api = Backend::of_this_process().api();
  Taken slot(*this, place);
  for (std::size_t offset = 0; offset < bytes; offset += buffer_bytes) {
    const std::size_t size = std::min(buffer_bytes, bytes - offset);
    Buffer& buffer = slot.next_buffer();
    std::memcpy(buffer.memory, at(source, offset), size);
    check(api, api.memcpy_async(at(target, offset), buffer.memory, size, stream), "cudaMemcpyAsync");
    buffer.end.record(stream);
  }
}

void Staging::to_host(void* target, const void* source, std::size_t bytes, Stream stream, Device place) {
  Api& api = Backend::of_this_process().api();
  Taken slot(*this, place);
  const auto start = [&](std::size_t offset) -> Buffer& {
    Buffer& buffer = slot.next_buffer();
    check(api, api.memcpy_async(buffer.memory, at(source, offset), std::min(buffer_bytes, bytes - offset), stream),
          "cudaMemcpyAsync");
    buffer.end.record(stream);
    return buffer;
  };
  Buffer* coming = &start(0);
  for (std::size_t offset = 0; offset < bytes; offset += buffer_bytes) {
    Buffer& buffer = *coming;
    if (offset + buffer_bytes < bytes) coming = &start(offset + buffer_bytes);
    wait_until([&] { return buffer.end.is_done(); }, "copy", place);
    std::memcpy(at(target, offset), buffer.memory, std::min(buffer_bytes, bytes - offset));
  }
}

Staging::Taken::Taken(Staging& staging, Device place) : staging_(staging), place_(place), slot_(staging.take(place)) {}

Staging::Slot* Staging::take(Device place) {
  const auto limit = wait_limit();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  MutexLock lock(mutex_);
  while (free_.empty()) {
    if (lock.wait_until(given_back_, deadline) || !free_.empty()) continue;
    throw_error(Code::deadline_exceeded, "copy: timed out after {} s waiting for copies of other threads to {}",
                std::chrono::duration<double>(limit).count(), to_string(place));
  }
  Slot* const slot = free_.front();
  free_.pop_front();
  return slot;
}

Staging::Taken::~Taken() {
  {
    const MutexLock lock(staging_.mutex_);
    staging_.free_.push_back(slot_);
  }
  staging_.given_back_.notify_one();
}

Staging::Buffer& Staging::Taken::next_buffer() {
  Buffer& buffer = slot_->buffers[slot_->next];
  slot_->next = 1 - slot_->next;
  wait_until([&] { return buffer.end.is_done(); }, "copy", place_);
  return buffer;
}

OwnedPool::OwnedPool(int device) : device_(device) {
  Api& api = Backend::of_this_process().api();
  const CurrentDevice current(device);
  check(api, api.pool_create(handle_, device), "cudaMemPoolCreate");
  const std::uint64_t everything = std::numeric_limits<std::uint64_t>::max();
  Status status = api.pool_set_attribute(handle_, PoolAttribute::release_threshold, everything);
  if (status == Status::success)
    status = api.pool_set_attribute(handle_, PoolAttribute::reuse_internal_dependencies, 0);
  if (status == Status::success) return;
  static_cast<void>(api.pool_destroy(handle_));
  check(api, status, "cudaMemPoolSetAttribute");
}

OwnedPool::~OwnedPool() {
  give_back(device_, "cudaMemPoolDestroy", [this](Api& api) { return api.pool_destroy(handle_); });
}

OpenDevices::Logical::Logical(Device device)
    : stream(device.index), memory(stream_memory(device.index, stream.get())) {}

OpenDevices::Logical& OpenDevices::open(Device device) {
  if (const auto found = logical_.find(device); found != logical_.end()) return found->second;
  Backend::of_this_process().require(device, "device");
  static_cast<void>(open_gpu(device.index));
  return logical_.try_emplace(device, device).first->second;
}

OpenDevices::Gpu& OpenDevices::open_gpu(int device) {
  if (const auto found = gpus_.find(device); found != gpus_.end()) return found->second;
  const Backend& backend = Backend::of_this_process();
  backend.require({DeviceKind::gpu, device}, "device");
  if (backend.has_kernels()) {
    const CurrentDevice current(device);
    check(backend.api(), backend.kernels().load_all(), "loading the kernels");
  }
  return gpus_.try_emplace(device, device).first->second;
}

Stream OpenDevices::stream(Device device) {
  const MutexLock lock(mutex_);
  return open(device).stream.get();
}

std::shared_ptr<MemoryResource> OpenDevices::memory(Device device) {
  const MutexLock lock(mutex_);
  return open(device).memory;
}

std::shared_ptr<MemoryResource> OpenDevices::pinned_memory() {
  const MutexLock lock(mutex_);
  if (pinned_ == nullptr) {
    // if the process already uses a GPU, allocate by a call on this GPU: CUDA then initializes no other GPU
    const int device = gpus_.empty() ? 0 : gpus_.begin()->first;
    pinned_ = cuda::pinned_memory(device, most_kept_pinned_bytes);
  }
  return pinned_;
}

void OpenDevices::keep(std::shared_ptr<void> owner, std::unique_ptr<OwnedEvent> end) {
  const MutexLock lock(kept_mutex_);
  kept_.push_back({std::move(owner), std::move(end)});
  has_kept_.store(true, std::memory_order_release);
}

void OpenDevices::release_completed() noexcept {
  if (!has_kept_.load(std::memory_order_acquire)) return;
  std::list<Kept> released;  // without the mutex: an owner may own further tensors
  const MutexLock lock(kept_mutex_);
  for (auto next = kept_.begin(); next != kept_.end();) {
    const auto one = next++;
    if (is_over(*one->end)) released.splice(released.end(), kept_, one);
  }
  has_kept_.store(!kept_.empty(), std::memory_order_release);
}

Staging& OpenDevices::staging(Device device) {
  const MutexLock lock(mutex_);
  static_cast<void>(open(device));
  return open_gpu(device.index).staging;
}

Pool OpenDevices::pool(int device) {
  const MutexLock lock(mutex_);
  return open_gpu(device).pool.get();
}

}  // namespace lockstep::detail::cuda
