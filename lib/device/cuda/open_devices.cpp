// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/open_devices.hpp"

#include "device/cuda/backend.hpp"
#include "device/cuda/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace lockstep::detail::cuda {
namespace {

constexpr std::size_t most_kept_pinned_bytes = std::size_t{256} << 20;

}  // namespace

OpenDevices::Logical::Logical(Device device)
    : stream(device.index), memory(stream_memory(device.index, stream.get())) {}

OpenDevices::Logical& OpenDevices::open(Device device) {
  if (const auto found = logical_.find(device); found != logical_.end()) return found->second;
  Backend::of_this_process().require(device, "device");
  open_gpu(device.index);
  return logical_.try_emplace(device, device).first->second;
}

void OpenDevices::open_gpu(int device) {
  if (staging_.contains(device)) return;
  const Backend& backend = Backend::of_this_process();
  const CurrentDevice current(device);
  // freed memory stays in the pool: the next tensors get it without a call of the driver
  const std::uint64_t everything = std::numeric_limits<std::uint64_t>::max();
  check(backend.api(), backend.api().set_pool_threshold(device, everything), "cudaMemPoolSetAttribute");
  staging_.try_emplace(device, device);
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
    // through a GPU that is open already, if there is one: CUDA then opens no other GPU for this
    const int device = staging_.empty() ? 0 : staging_.begin()->first;
    pinned_ = cuda::pinned_memory(device, most_kept_pinned_bytes);
  }
  return pinned_;
}

Staging& OpenDevices::staging(Device device) {
  const MutexLock lock(mutex_);
  static_cast<void>(open(device));
  return staging_.find(device.index)->second;
}

}  // namespace lockstep::detail::cuda
