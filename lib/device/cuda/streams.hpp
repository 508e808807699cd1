// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ordering of work on GPUs.

#pragma once

#include <lockstep/core/device.hpp>

#include "device/cuda/backend.hpp"

#include <cstddef>
#include <functional>
#include <string_view>

namespace lockstep::detail::cuda {

/// Makes `device` the calling thread's current device, and restores the former one at the end; a thread that had none
/// keeps `device`. CUDA initialises the current device when it is first used, which takes hundreds of megabytes on a
/// GPU that may not be wanted: so all calls are made under one of these objects.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice();

 private:
  int before_ = -1;  ///< -1 if there is no device to restore
};

/// The stream of a logical device; created at its first use, and never destroyed. Throws Error(unavailable) if the
/// device is not available. Thread-safe.
[[nodiscard]] Stream stream_of(Device device);

/// Makes later work on `later`, a stream of any device, wait for the work that is on `earlier` now, a stream of
/// `earlier_device`.
void put_in_order(Stream earlier, int earlier_device, Stream later);

/// Whether all work on `stream` of `device` is complete. Throws Error(unavailable) if some of it failed.
[[nodiscard]] bool is_idle(Stream stream, int device);

/// Polls `is_done`, with pauses, until it returns true; it may throw errors of its own. Throws Error(deadline_exceeded)
/// that names the operation `who` and `device` if that takes longer than wait_limit(). CUDA's own waits have no bound.
void wait_until(const std::function<bool()>& is_done, std::string_view who, Device device);

/// For destructors: runs `action`, which frees a resource of `device` by `call`. The first failure is logged. A child
/// of fork() frees nothing.
void give_back(int device, std::string_view call, const std::function<Status(Api&)>& action) noexcept;

/// An event of one device. It can be recorded repeatedly.
class OwnedEvent {
 public:
  explicit OwnedEvent(int device);
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  ~OwnedEvent();

  void record(Stream stream);
  /// Whether the work that was on the stream when the event was recorded is complete; true if it was never recorded.
  /// Throws Error(unavailable) if that work failed.
  [[nodiscard]] bool is_done() const;
  /// Makes later work on `stream`, of any device, wait for the event. The thread's current device is not changed:
  /// CUDA's default streams belong to the current device.
  void hold_back(Stream stream) const;

 private:
  int device_;
  Event handle_ = nullptr;
};

/// A stream of its own, for work that is independent of the replicas' streams. The destructor waits for its work, for a
/// bounded time.
class OwnedStream {
 public:
  explicit OwnedStream(int device);
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream();

  [[nodiscard]] Stream get() const noexcept { return handle_; }
  [[nodiscard]] int device() const noexcept { return device_; }

 private:
  int device_;
  Stream handle_ = nullptr;
};

/// Device memory, allocated and freed in order with `stream`, which must outlive it. Throws std::bad_alloc.
class StreamBlock {
 public:
  StreamBlock() = default;
  StreamBlock(std::size_t bytes, int device, Stream stream);
  StreamBlock(StreamBlock&& other) noexcept;
  StreamBlock& operator=(StreamBlock&& other) noexcept;
  ~StreamBlock();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  /// Leaks the block: an operation that did not complete may still use it.
  void leak() noexcept { data_ = nullptr; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
  Stream stream_ = nullptr;
};

}  // namespace lockstep::detail::cuda
