// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Order between what is done on a GPU.

#pragma once

#include <lockstep/core/device.hpp>

#include "device/cuda/backend.hpp"

#include <cstddef>
#include <memory>

namespace lockstep::detail::cuda {

/// Makes `device` the calling thread's current one, and at the end the one that was before.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice();

 private:
  int before_ = -1;
};

/// The stream of a logical device; made at its first use, and never destroyed. Throws Error(unavailable) where the
/// device is not here. Thread-safe.
[[nodiscard]] Stream stream_of(Device device);

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
  /// What comes later on `stream`, of any device, waits for it.
  void hold_back(Stream stream) const;

 private:
  int device_;
  Event handle_ = nullptr;
};

/// A stream of its own, for what is beside the replicas' work. Waits for its end for a bounded time.
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
  void leak() noexcept;

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
  Stream stream_ = nullptr;
};

}  // namespace lockstep::detail::cuda
