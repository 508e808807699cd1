// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The resources that this process holds on its GPUs.

#pragma once

#include "base/mutex.hpp"
#include "bindings/cuda/cuda.hpp"
#include "device/cuda/streams.hpp"

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>

namespace lockstep::detail::cuda {

/// Pinned memory beside one GPU, through which copies to and from host memory that is not pinned go in segments. CUDA
/// would do the same, but its calls would wait for earlier work on the stream without a bound. Thread-safe.
class Staging {
 public:
  explicit Staging(int device);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Returns when all of `source` is read; `target` is written in order with `stream`.
  void to_device(void* target, const void* source, std::size_t bytes, Stream stream, Device place);
  /// Reads `source` in order with `stream`; returns when `target` is written.
  void to_host(void* target, const void* source, std::size_t bytes, Stream stream, Device place);

 private:
  /// Pinned memory for one segment; it is free when the event is complete.
  struct Buffer {
    explicit Buffer(int device) : end(device) {}
    std::byte* memory = nullptr;
    OwnedEvent end;
  };
  /// Two buffers: while one is in use by the GPU, the host fills or empties the other.
  struct Slot {
    explicit Slot(int device) : buffers{{Buffer(device), Buffer(device)}} {}
    std::array<Buffer, 2> buffers;
    std::size_t next = 0;
  };
  /// A slot, taken by one thread; while all are taken, other threads wait. A slot may be released while the GPU still
  /// uses its buffers: the next thread waits for their events.
  class Taken {
   public:
    Taken(Staging& staging, Device place);
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken();
    /// Waits until the buffer that was used longest ago is free, and returns it.
    [[nodiscard]] Buffer& next_buffer();

   private:
    Staging& staging_;
    Device place_;
    Slot* slot_;
  };

  /// Waits for a free slot and removes it from the list.
  [[nodiscard]] Slot* take(Device place);

  static constexpr std::size_t buffer_bytes = std::size_t{512}
                                              << 10;  // some hundred microseconds of work for the host or the GPU
  static constexpr std::size_t slot_count = 4;        // number of small copies that do not wait for a busy stream

  const int device_;
  std::byte* memory_;
  std::list<Slot> slots_;
  Mutex mutex_;
  std::condition_variable given_back_;
  std::deque<Slot*> free_ LOCKSTEP_GUARDED_BY(mutex_);  // the slot that was released longest ago is first
};

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
