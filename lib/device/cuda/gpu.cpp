// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/device/gpu.hpp>

#include "device/cuda/backend.hpp"
#include "device/cuda/open_devices.hpp"
#include "device/cuda/streams.hpp"

#include <fmt/format.h>

namespace lockstep {

using detail::cuda::Backend;

int gpu_count() { return Backend::of_this_process().device_count(); }

std::string gpu_status() {
  Backend& backend = Backend::of_this_process();
  const detail::cuda::Found& found = backend.found();
  if (found.devices.empty()) return "no GPU: " + found.why;
  std::string text = fmt::format("{} GPU{}:", found.devices.size(), found.devices.size() == 1 ? "" : "s");
  for (const auto& device : found.devices) {
    text += fmt::format("{} {}", &device == &found.devices.front() ? "" : ",", device.name);
  }
  text += fmt::format("; CUDA {}, driver {}", detail::cuda::version_text(found.runtime_version),
                      detail::cuda::version_text(found.driver_version));
  const detail::nccl::Library& nccl = backend.nccl();
  if (nccl.api == nullptr) return text + "; no NCCL: " + nccl.why;
  return text + fmt::format("; NCCL {}.{}.{}", nccl.version / 10000, nccl.version / 100 % 100, nccl.version % 100);
}

std::shared_ptr<MemoryResource> gpu_memory_resource(Device device) {
  return Backend::of_this_process().open_devices().memory(device);
}

std::shared_ptr<MemoryResource> pinned_memory_resource() {
  const Backend& backend = Backend::of_this_process();
  return backend.device_count() == 0 ? heap_memory_resource() : backend.open_devices().pinned_memory();
}

void synchronize(Device device) {
  if (device.kind == DeviceKind::cpu) return;
  const detail::cuda::Stream stream = detail::cuda::stream_of(device);
  detail::cuda::wait_until([&] { return detail::cuda::is_idle(stream, device.index); }, "synchronize", device);
}

void* stream_handle(Device device) { return detail::cuda::stream_of(device); }

void device_waits_for(Device device, void* stream) {
  detail::cuda::put_in_order(stream, device.index, detail::cuda::stream_of(device));
}

void stream_waits_for(void* stream, Device device) {
  detail::cuda::put_in_order(detail::cuda::stream_of(device), device.index, stream);
}

}  // namespace lockstep
