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
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>

namespace lockstep::detail::cuda {

/// Pinned memory for copies between one GPU and host memory that is not pinned. Such a copy passes through the pinned
/// memory in segments. CUDA's own copies do the same, but wait for earlier work on the stream without a bound.
/// Thread-safe.
class Staging {
 public:
  explicit Staging(int device);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Copies host memory `source` to device memory `target`, in order with `stream`. Returns when `source` has been
  /// read; `target` may be written later.
  void to_device(void* target, const void* source, std::size_t bytes, Stream stream, Device place);
  /// Copies device memory `source` to host memory `target`, in order with `stream`. Returns when `target` is written.
  void to_host(void* target, const void* source, std::size_t bytes, Stream stream, Device place);

 private:
  /// Pinned memory for one segment. The memory is free when the event `end` is complete.
  struct Buffer {
    explicit Buffer(int device) : end(device) {}
    std::byte* memory = nullptr;
    OwnedEvent end;
  };
  /// Two buffers: while the GPU uses one buffer, the host fills or empties the other buffer.
  struct Slot {
    explicit Slot(int device) : buffers{{Buffer(device), Buffer(device)}} {}
    std::array<Buffer, 2> buffers;
    std::size_t next = 0;
  };
  /// The use of a slot by one thread. If all slots are in use, further threads wait. A thread may release a slot while
  /// the GPU still uses the slot's buffers: the next thread waits for the events of the buffers.
  class Taken {
   public:
    Taken(Staging& staging, Device place);
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken();
    /// Waits until the less recently used buffer of the slot is free, and returns this buffer.
    [[nodiscard]] Buffer& next_buffer();

   private:
    Staging& staging_;
    Device place_;
    Slot* slot_;
  };

  /// Waits for a free slot and removes it from the list.
  [[nodiscard]] Slot* take(Device place);

  static constexpr std::size_t buffer_bytes = std::size_t{512}
                                              << 10;  // about a hundred microseconds of work for host or GPU
  static constexpr std::size_t slot_count = 4;        // number of threads that can copy at a time

  const int device_;
  std::byte* memory_;
  std::list<Slot> slots_;
  Mutex mutex_;
  std::condition_variable given_back_;
  std::deque<Slot*> free_ LOCKSTEP_GUARDED_BY(mutex_);  // the slot that was released longest ago is first
};

/// The pool from which lockstep allocates memory of one GPU. It is not CUDA's default pool, whose attributes belong to
/// the program. Freed memory stays in the pool, so that later allocations can use it without a call of the driver; an
/// allocation never waits for another stream.
class OwnedPool {
 public:
  explicit OwnedPool(int device);
  OwnedPool(const OwnedPool&) = delete;
  OwnedPool& operator=(const OwnedPool&) = delete;
  ~OwnedPool();

  [[nodiscard]] Pool get() const noexcept { return handle_; }

 private:
  int device_;
  Pool handle_ = nullptr;
};

/// Streams and memory of the Backend's devices. The resources of a device are created at its first use. All functions
/// throw Error(unavailable) if the device is not available. Thread-safe.
class OpenDevices {
 public:
  [[nodiscard]] Stream stream(Device device);
  [[nodiscard]] std::shared_ptr<MemoryResource> memory(Device device);
  [[nodiscard]] std::shared_ptr<MemoryResource> pinned_memory();
  [[nodiscard]] Staging& staging(Device device);
  [[nodiscard]] Pool pool(int device);
  /// Keeps `owner` until release_completed finds that `end` is complete.
  void keep(std::shared_ptr<void> owner, std::unique_ptr<OwnedEvent> end);
  void release_completed() noexcept;

 private:
  struct Logical {
    explicit Logical(Device device);
    OwnedStream stream;
    std::shared_ptr<MemoryResource> memory;
  };

  /// What the process has of one GPU, for all logical devices of the GPU.
  struct Gpu {
    explicit Gpu(int device) : pool(device), staging(device) {}
    OwnedPool pool;
    Staging staging;
  };

  [[nodiscard]] Logical& open(Device device) LOCKSTEP_REQUIRES(mutex_);
  Gpu& open_gpu(int device) LOCKSTEP_REQUIRES(mutex_);

  struct Kept {
    std::shared_ptr<void> owner;
    std::unique_ptr<OwnedEvent> end;
  };

  Mutex kept_mutex_;
  std::list<Kept> kept_ LOCKSTEP_GUARDED_BY(kept_mutex_);
  std::atomic<bool> has_kept_{false};  // whether kept_ may have elements
  Mutex mutex_;
  std::shared_ptr<MemoryResource> pinned_ LOCKSTEP_GUARDED_BY(mutex_);
  // the elements of the maps keep their addresses; callers use them without the mutex
  std::map<int, Gpu> gpus_ LOCKSTEP_GUARDED_BY(mutex_);            // the GPUs in use
  std::map<Device, Logical> logical_ LOCKSTEP_GUARDED_BY(mutex_);  // destroyed first: waits for work on the streams
};

}  // namespace lockstep::detail::cuda
