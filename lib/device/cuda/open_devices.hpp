// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What this process holds on its GPUs.

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include "device/cuda/staging.hpp"
#include "device/cuda/streams.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace lockstep::detail::cuda {

/// Streams and memory of the Backend's devices, of each device from its first use on. Devices that are not here throw
/// Error(unavailable). Thread-safe.
class OpenDevices {
 public:
  [[nodiscard]] Stream stream(Device device);
  [[nodiscard]] std::shared_ptr<MemoryResource> memory(Device device);
  [[nodiscard]] std::shared_ptr<MemoryResource> pinned_memory();
  [[nodiscard]] Staging& staging(Device device);

 private:
  struct Logical {
    explicit Logical(Device device);
    OwnedStream stream;
    std::shared_ptr<MemoryResource> memory;
  };

  [[nodiscard]] Logical& open(Device device);
  void open_gpu(int device);

  std::mutex mutex_;  // guards what follows; what is in the maps stays where it is
  std::shared_ptr<MemoryResource> pinned_;
  std::map<int, Staging> staging_;     // of each GPU that is open
  std::map<Device, Logical> logical_;  // ends first, with what is on the streams
};

}  // namespace lockstep::detail::cuda
