// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/copies.hpp"

#include "base/log.hpp"
#include "device/cuda/open_devices.hpp"
#include "device/cuda/streams.hpp"
#include "device/host/memory_use.hpp"

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

/// A copy that has not come to its end in time.
class LateCopy final : public MemoryUser {
 public:
  LateCopy(std::unique_ptr<OwnedEvent> end, Device device) : end_(std::move(end)), device_(device) {}
  bool finish() noexcept override {
    try {
      return end_->is_done();
    } catch (const std::exception&) {
      return true;  // a device that has failed touches nothing
    }
  }
  std::string name() const override { return "a copy from or to " + to_string(device_); }

 private:
  std::unique_ptr<OwnedEvent> end_;
  Device device_;
};

/// Whether CUDA reaches this memory of the host by itself.
bool is_pinned(Api& api, const void* data) {
  PointerAttributes attributes;
  check(api, api.pointer_attributes(data, attributes), "cudaPointerGetAttributes");
  return attributes.kind != MemoryKind::unregistered;
}

/// Between `gpu` and page-locked memory at `host`, which is one of both.
void copy_at_once(void* target, const void* source, std::size_t bytes, Device gpu, const void* host) {
  Api& api = Backend::of_this_process().api();
  const Stream stream = stream_of(gpu);
  auto end = std::make_unique<OwnedEvent>(gpu.index);
  check(api, api.memcpy_async(target, source, bytes, stream), "cudaMemcpyAsync");
  end->record(stream);
  try {
    wait_until([&] { return end->is_done(); }, "copy", gpu);
  } catch (const Error& error) {
    if (error.code() == Code::deadline_exceeded) {
      // never taken back: the device may come to this memory whenever it goes on
      static_cast<void>(new MemoryUse(std::make_shared<LateCopy>(std::move(end), gpu),
                                      std::make_shared<const std::vector<MemoryBlock>>(1, MemoryBlock{host, bytes})));
    }
    throw;
  }
}

void copy_between_gpus(void* target, Device target_device, const void* source, Device source_device,
                       std::size_t bytes) {
  Api& api = Backend::of_this_process().api();
  const Stream target_stream = stream_of(target_device);
  const Stream source_stream = stream_of(source_device);
  if (target_stream != source_stream) put_in_order(source_stream, source_device.index, target_stream);
  check(api, api.memcpy_async(target, source, bytes, target_stream), "cudaMemcpyAsync");
  // the source may be written again, or given back, on its own stream
  if (target_stream != source_stream) put_in_order(target_stream, target_device.index, source_stream);
}

}  // namespace

void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes) {
  const Backend& backend = Backend::of_this_process();
  const bool to_gpu = target_device.kind == DeviceKind::gpu;
  const bool from_gpu = source_device.kind == DeviceKind::gpu;
  const Device gpu = to_gpu ? target_device : source_device;
  const Stream stream = stream_of(gpu);
  const CurrentDevice current(gpu.index);
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
