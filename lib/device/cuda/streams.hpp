// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams and events, which order the work on GPUs.

#pragma once

#include <lockstep/core/device.hpp>

#include "base/mutex.hpp"
#include "device/cuda/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace lockstep::detail::cuda {

/// Makes `device` the calling thread's current device; the destructor restores the former current device. If the thread
/// had no current device, `device` remains current. All calls of CUDA are made while such an object exists. Without it,
/// CUDA could initialize a GPU that the program does not use, which takes hundreds of megabytes on that GPU. The
/// thread's capture mode is relaxed meanwhile: otherwise a query would fail, and invalidate the capture, while any
/// thread of the program captures a stream into a graph.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice();

 private:
  int before_ = -1;  ///< -1 if there is no device to restore
  CaptureMode mode_ = CaptureMode::relaxed;
};

/// Marks the calls of this thread, as long as this object exists, as `name` in the timeline of a profiler.
class ProfilerRange {
 public:
  explicit ProfilerRange(std::string_view name);
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
  ~ProfilerRange();
};

/// The stream of a logical device. It is created at the device's first use, and never destroyed. Throws
/// Error(unavailable) if the device is not available. Thread-safe.
[[nodiscard]] Stream stream_of(Device device);

/// Makes later work on the stream `later` wait for the work that is now on the stream `earlier`. `earlier` is a stream
/// of `earlier_device`; `later` is a stream of any device.
void put_in_order(Stream earlier, int earlier_device, Stream later);

/// Throws Error(failed_precondition) that names the call `who` if the program captures `stream`, a stream of `device`,
/// into a graph: work that the graph repeats would have no counterpart on the other ranks.
void require_no_capture(Stream stream, int device, std::string_view who);

/// Whether all work on `stream` of `device` is complete. Throws Error(unavailable) if some of the work failed.
[[nodiscard]] bool is_idle(Stream stream, int device);

/// Polls `is_done`, with pauses, until `is_done` returns true. If this takes longer than wait_limit(), throws
/// Error(deadline_exceeded) that names the operation `who` and `device`. Passes on the exceptions of `is_done`. Used
/// instead of CUDA's own waits, which have no bound.
void wait_until(const std::function<bool()>& is_done, std::string_view who, Device device);

/// For destructors: runs `action`, which frees a resource of `device` by CUDA's function `call`. Logs only the first
/// failure in the process. Does nothing in a child process of fork().
void give_back(int device, std::string_view call, const std::function<Status(Api&)>& action) noexcept;

/// Keeps events for later use: a collective needs several, and their creation and destruction would be a third of its
/// calls of CUDA. Thread-safe.
class EventPool {
 public:
  EventPool() = default;
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  /// Destroys the events.
  ~EventPool();

  /// An event of `device`, which must be the current device. It may have been recorded before. Throws
  /// Error(unavailable) if CUDA fails.
  [[nodiscard]] Event take(Api& api, int device);
  void give_back(Event event, int device) noexcept;

 private:
  Mutex mutex_;
  std::map<int, std::vector<Event>> free_ LOCKSTEP_GUARDED_BY(mutex_);  // by device
};

/// An event of one device. It can be recorded repeatedly.
class OwnedEvent {
 public:
  explicit OwnedEvent(int device);
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  ~OwnedEvent();

  void record(Stream stream);
  /// Whether the work that was on the stream when the event was recorded is complete; true if the event was never
  /// recorded. Throws Error(unavailable) if that work failed.
  [[nodiscard]] bool is_done() const;
  /// Makes later work on `stream`, a stream of any device, wait for the event. Keeps the thread's current device,
  /// because the handle of a default stream means the default stream of the current device.
  void hold_back(Stream stream) const;

 private:
  int device_;
  Event handle_ = nullptr;
  bool is_recorded_ = false;  // by this object: the event may have been recorded by its former owner
};

/// The order in which a GPU starts the blocks of kernels on different streams, if not all of them fit.
enum class Priority : std::uint8_t { normal, greatest };

/// A stream that this object creates and destroys. The destructor waits for the work on the stream, for a bounded time.
class OwnedStream {
 public:
  explicit OwnedStream(int device, Priority priority = Priority::normal);
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream();

  [[nodiscard]] Stream get() const noexcept { return handle_; }
  [[nodiscard]] int device() const noexcept { return device_; }

 private:
  int device_;
  Stream handle_ = nullptr;
};

/// Device memory that is allocated and freed in order with `stream`. The stream must outlive this object. The
/// constructor throws std::bad_alloc.
class StreamBlock {
 public:
  StreamBlock() = default;
  StreamBlock(std::size_t bytes, int device, Stream stream);
  StreamBlock(StreamBlock&& other) noexcept;
  StreamBlock& operator=(StreamBlock&& other) noexcept;
  ~StreamBlock();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  /// Leaks the memory, because an operation that did not complete may still use it.
  void leak() noexcept { data_ = nullptr; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
  Stream stream_ = nullptr;
};

}  // namespace lockstep::detail::cuda
