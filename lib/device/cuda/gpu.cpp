// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/device/gpu.hpp>

#include "device/cuda/backend.hpp"
#include "device/cuda/memory.hpp"
#include "device/cuda/open_devices.hpp"
#include "device/cuda/streams.hpp"

#include <fmt/format.h>

namespace lockstep {

using detail::cuda::Backend;

int gpu_count() { return Backend::of_this_process().device_count(); }

std::string gpu_status() {
  Backend& backend = Backend::of_this_process();
  const detail::cuda::Found& found = backend.found();
  std::string text = found.devices.empty()
                         ? "no GPU: " + found.why
                         : fmt::format("{} GPU{}: ", found.devices.size(), found.devices.size() == 1 ? "" : "s");
  for (const auto& device : found.devices) {
    text += fmt::format("{}{}", &device == &found.devices.front() ? "" : ", ", device.name);
  }
  if (!found.devices.empty() && !found.left_out.empty()) text += "; " + found.left_out;
  const std::string versions = versions_text(backend);
  return versions.empty() ? text : text + "; " + versions;
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
  detail::cuda::release_completed();
}

void* stream_handle(Device device) { return detail::cuda::stream_of(device); }

void device_waits_for(Device device, void* stream) {
  const detail::cuda::Stream own = detail::cuda::stream_of(device);
  detail::cuda::require_no_capture(stream, device.index, "wait_for");
  detail::cuda::put_in_order(stream, device.index, own);
}

void stream_waits_for(void* stream, Device device) {
  const detail::cuda::Stream own = detail::cuda::stream_of(device);
  detail::cuda::require_no_capture(stream, device.index, "wait_for");
  detail::cuda::put_in_order(own, device.index, stream);
}

}  // namespace lockstep
