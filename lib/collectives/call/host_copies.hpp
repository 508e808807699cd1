// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies in host memory that take the place of tensors on GPUs during an operation on hosts.

#pragma once

#include "collectives/call/descriptor.hpp"
#include "collectives/call/host_item.hpp"
#include "device/cuda/streams.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Pinned memory for the tensors of one call that are on GPUs. Thread-safety: one thread at a time.
class HostCopies {
 public:
  /// Puts host memory in the place of every tensor of `items` that is on a GPU; outputs of an item with the same
  /// content share one. Throws Error(unavailable) if pinned memory is exhausted.
  HostCopies(OperationKind kind, std::span<HostItem> items);
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  /// Leaks memory that a pending copy may still access.
  ~HostCopies();

  /// Copies the inputs in order with the streams of their devices, and waits. Throws Error(deadline_exceeded) after
  /// `timeout`, Error(unavailable) when CUDA fails.
  void fetch(std::chrono::milliseconds timeout);
  /// Starts the copies of the outputs to their devices, in order with the streams there.
  void deliver();
  /// Whether all copies are done. Throws Error(unavailable) when CUDA fails.
  [[nodiscard]] bool is_done() const;

 private:
  struct Copy {
    const void* source;
    void* target;
    GpuPlace place;  // the end on a device
  };

  void place_inputs(HostItem& item, std::byte*& next);
  void place_outputs(OperationKind kind, HostItem& item, std::byte*& next);
  /// Starts the copies, and records an event after them on each stream.
  void start(std::span<const Copy> copies);

  std::vector<Copy> inputs_;
  std::vector<Copy> outputs_;
  std::size_t bytes_ = 0;
  void* block_ = nullptr;
  std::map<Device, std::unique_ptr<cuda::OwnedEvent>> ends_;
};

}  // namespace lockstep::detail
