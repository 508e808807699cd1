// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/copies.hpp"

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "device/cuda/memory.hpp"
#include "device/cuda/open_devices.hpp"
#include "device/cuda/streams.hpp"
#include "device/host/memory_use.hpp"

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

/// A copy that has timed out: the device may still access the host memory when it continues. The object keeps itself
/// alive until the memory is freed and the copy has completed.
class LateCopy final : public MemoryUser {
 public:
  static void watch(std::unique_ptr<OwnedEvent> end, Device device, MemoryBlock block) {
    const auto copy = std::make_shared<LateCopy>(std::move(end), device);
    auto use = std::make_unique<MemoryUse>(copy, std::make_shared<const std::vector<MemoryBlock>>(1, block));
    const MutexLock lock(copy->mutex_);
    copy->use_ = std::move(use);
  }

  LateCopy(std::unique_ptr<OwnedEvent> end, Device device) : end_(std::move(end)), device_(device) {}
  bool finish() noexcept override {
    const MutexLock lock(mutex_);
    try {
      if (!end_->is_done()) return false;
    } catch (const std::exception&) {  // a failed device accesses no memory
    }
    use_ = nullptr;
    return true;
  }
  std::string name() const override { return "a copy from or to " + to_string(device_); }

 private:
  std::unique_ptr<OwnedEvent> end_;
  Device device_;
  Mutex mutex_;
  std::unique_ptr<MemoryUse> use_ LOCKSTEP_GUARDED_BY(mutex_);
};

MemoryKind kind_of(Api& api, const void* data) {
  PointerAttributes attributes;
  check(api, api.pointer_attributes(data, attributes), "cudaPointerGetAttributes");
  return attributes.kind;
}

/// Whether CUDA can access this host memory directly.
bool is_pinned(Api& api, const void* data) { return kind_of(api, data) != MemoryKind::unregistered; }

/// Throws Error(invalid_argument) if the elements at `data`, the source or target of a copy as `role` says, cannot be
/// on `device`.
void require_reach(const void* data, Device device, std::string_view role) {
  const std::string found = out_of_reach(data, device);
  if (found.empty()) return;
  throw_error(Code::invalid_argument, "copy: the {} is a view on {}, but its elements are {}", role, to_string(device),
              found);
}

/// Copies between `gpu` and pinned memory; `host` is the one of `target` and `source` that is pinned.
void copy_at_once(void* target, const void* source, std::size_t bytes, Device gpu, const void* host) {
  Api& api = Backend::of_this_process().api();
  const Stream stream = stream_of(gpu);
  auto end = std::make_unique<OwnedEvent>(gpu.index);
  check(api, api.memcpy_async(target, source, bytes, stream), "cudaMemcpyAsync");
  end->record(stream);
  try {
    wait_until([&] { return end->is_done(); }, "copy", gpu);
  } catch (const Error& error) {
    if (error.code() == Code::deadline_exceeded) LateCopy::watch(std::move(end), gpu, {host, bytes});
    throw;
  }
}

void copy_between_gpus(void* target, Device target_device, const void* source, Device source_device,
                       std::size_t bytes) {
  const Stream target_stream = stream_of(target_device);
  const Stream source_stream = stream_of(source_device);
  require_reach(source, source_device, "source");
  if (target_stream != source_stream) put_in_order(source_stream, source_device.index, target_stream);
  start_copy(target, target_device.index, source, source_device.index, bytes, target_stream);
  // the source may be overwritten, or freed, on its own stream
  if (target_stream != source_stream) put_in_order(target_stream, target_device.index, source_stream);
}

}  // namespace

void start_copy(void* target, int target_gpu, const void* source, int source_gpu, std::size_t bytes, Stream stream) {
  Api& api = Backend::of_this_process().api();
  if (target_gpu != source_gpu && kind_of(api, target) == MemoryKind::device &&
      kind_of(api, source) == MemoryKind::device) {
    check(api, api.memcpy_peer_async(target, target_gpu, source, source_gpu, bytes, stream), "cudaMemcpyPeerAsync");
  } else {
    check(api, api.memcpy_async(target, source, bytes, stream), "cudaMemcpyAsync");
  }
}

void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes) {
  const Backend& backend = Backend::of_this_process();
  const bool to_gpu = target_device.kind == DeviceKind::gpu;
  const bool from_gpu = source_device.kind == DeviceKind::gpu;
  const Device gpu = to_gpu ? target_device : source_device;
  const Stream stream = stream_of(gpu);
  const CurrentDevice current(gpu.index);
  require_reach(to_gpu ? target : source, gpu, to_gpu ? "target" : "source");
  if (to_gpu && from_gpu) {
    copy_between_gpus(target, target_device, source, source_device, bytes);
  } else if (const void* const host = to_gpu ? source : target; is_pinned(backend.api(), host)) {
    copy_at_once(target, source, bytes, gpu, host);
  } else if (to_gpu) {
    backend.open_devices().staging(gpu).to_device(target, source, bytes, stream, gpu);
  } else {
    backend.open_devices().staging(gpu).to_host(target, source, bytes, stream, gpu);
  }
}

void zero_bytes(void* target, Device device, std::size_t bytes) {
  Api& api = Backend::of_this_process().api();
  const Stream stream = stream_of(device);
  const CurrentDevice current(device.index);
  check(api, api.memset_async(target, 0, bytes, stream), "cudaMemsetAsync");
}

}  // namespace lockstep::detail::cuda
