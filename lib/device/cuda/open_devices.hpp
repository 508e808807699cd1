// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The resources that this process holds on its GPUs.

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include "device/cuda/staging.hpp"
#include "device/cuda/streams.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace lockstep::detail::cuda {

/// Streams and memory of the Backend's devices; those of a device exist from its first use on. Throws
/// Error(unavailable) for devices that are not available. Thread-safe.
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
  std::map<int, Staging> staging_;     // by GPU, for the GPUs that are open
  std::map<Device, Logical> logical_;  // destroyed first, after the work on the streams
};

}  // namespace lockstep::detail::cuda
