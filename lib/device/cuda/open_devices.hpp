// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The resources that this process holds on its GPUs.

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include "base/mutex.hpp"
#include "device/cuda/staging.hpp"
#include "device/cuda/streams.hpp"

#include <map>
#include <memory>

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

  [[nodiscard]] Logical& open(Device device) LOCKSTEP_REQUIRES(mutex_);
  void open_gpu(int device) LOCKSTEP_REQUIRES(mutex_);

  Mutex mutex_;
  std::shared_ptr<MemoryResource> pinned_ LOCKSTEP_GUARDED_BY(mutex_);
  // elements of the maps keep their addresses and are used without the mutex
  std::map<int, Staging> staging_ LOCKSTEP_GUARDED_BY(mutex_);     // by GPU, for the GPUs that are open
  std::map<Device, Logical> logical_ LOCKSTEP_GUARDED_BY(mutex_);  // destroyed first, after the work on the streams
};

}  // namespace lockstep::detail::cuda
