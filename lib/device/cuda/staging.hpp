// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies between a GPU and memory that CUDA cannot reach by itself.

#pragma once

#include "bindings/cuda/cuda.hpp"
#include "device/cuda/streams.hpp"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <list>
#include <mutex>

namespace lockstep::detail::cuda {

/// Some page-locked memory beside one GPU, through which pieces go. CUDA would do the same, but waits inside of its
/// calls for what is on the stream before, for ever where that never ends. Thread-safe.
class Staging {
 public:
  explicit Staging(int device);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// On return all of `source` is read; `target` is written in order with `stream`.
  void to_device(void* target, const void* source, std::size_t bytes, Stream stream, Device place);
  /// In order with `stream`; on return `target` is written.
  void to_host(void* target, const void* source, std::size_t bytes, Stream stream, Device place);

 private:
  /// A piece on its way: its memory is free again when its event has come.
  struct Lane {
    explicit Lane(int device) : end(device) {}
    std::byte* memory = nullptr;
    OwnedEvent end;
  };
  /// Two lanes: while one is on its way, the host fills or empties the other.
  struct Slot {
    explicit Slot(int device) : lanes{{Lane(device), Lane(device)}} {}
    std::array<Lane, 2> lanes;
    std::size_t next = 0;
  };
  /// A slot for one thread; those who come while all are taken wait. It is given back as it is, with pieces on their
  /// way: who uses a lane waits for its event first.
  class Taken {
   public:
    Taken(Staging& staging, Device place);
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken();
    /// The lane that was used longest ago, when it is free.
    [[nodiscard]] Lane& next_lane();

   private:
    Staging& staging_;
    Device place_;
    Slot* slot_;
  };

  static constexpr std::size_t lane_bytes = std::size_t{512} << 10;  // some hundred microseconds of either side's work
  static constexpr std::size_t slot_count = 4;                       // small copies that a busy stream still takes

  const int device_;
  std::byte* memory_;
  std::list<Slot> slots_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable given_back_;
  std::deque<Slot*> free_;  // the one given back longest ago comes first
};

}  // namespace lockstep::detail::cuda
