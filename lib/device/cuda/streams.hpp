// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Order between what is done on a GPU.

#pragma once

#include <lockstep/core/device.hpp>

#include "device/cuda/backend.hpp"

#include <cstddef>
#include <functional>
#include <string_view>

namespace lockstep::detail::cuda {

/// Makes `device` the calling thread's current one, and at the end the one that was before; a thread that had used none
/// keeps it. CUDA opens whatever device is current when something is asked of it, which costs a GPU that nobody meant
/// hundreds of megabytes: all calls are made under one of these.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice();

 private:
  int before_ = -1;  ///< -1: there is nothing to go back to
};

/// The stream of a logical device; made at its first use, and never destroyed. Throws Error(unavailable) where the
/// device is not here. Thread-safe.
[[nodiscard]] Stream stream_of(Device device);

/// What comes later on `later`, of any device, waits for what is on `earlier` now, which is of `earlier_device`.
void put_in_order(Stream earlier, int earlier_device, Stream later);

/// Whether all that is on `stream` of `device` is done. Throws Error(unavailable) when something there has failed.
[[nodiscard]] bool is_idle(Stream stream, int device);

/// Looks again and again, with pauses, until `is_done`, which throws for itself. Throws Error(deadline_exceeded) that
/// names `who` and `device` when that takes longer than the Backend's wait limit. CUDA's own waits have no bound.
void wait_until(const std::function<bool()>& is_done, std::string_view who, Device device);

/// For destructors: `action`, which gives something of `device` back. Failure of `call` is a line in the log, the first
/// time. A child of fork() gives nothing back.
void give_back(int device, std::string_view call, const std::function<Status(Api&)>& action) noexcept;

/// An event of one device, to be recorded again and again.
class OwnedEvent {
 public:
  explicit OwnedEvent(int device);
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  ~OwnedEvent();

  void record(Stream stream);
  /// Whether what was on the stream when it was recorded is done; so where it never was. Throws Error(unavailable) when
  /// that failed.
  [[nodiscard]] bool is_done() const;
  /// What comes later on `stream`, of any device, waits for it. The thread's current device stays: a default stream of
  /// CUDA's is that device's.
  void hold_back(Stream stream) const;

 private:
  int device_;
  Event handle_ = nullptr;
};

/// A stream of its own, for what is beside the replicas' work. At its end it waits for that, for a bounded time.
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

/// Device memory, taken and given back in order with `stream`. Throws std::bad_alloc. The stream outlives it.
class StreamBlock {
 public:
  StreamBlock() = default;
  StreamBlock(std::size_t bytes, int device, Stream stream);
  StreamBlock(StreamBlock&& other) noexcept;
  StreamBlock& operator=(StreamBlock&& other) noexcept;
  ~StreamBlock();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  /// Gives it up without freeing it: something that never ended may still use it.
  void leak() noexcept { data_ = nullptr; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
  Stream stream_ = nullptr;
};

}  // namespace lockstep::detail::cuda
