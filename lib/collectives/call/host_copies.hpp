// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies in host memory of tensors on GPUs, for an operation that works on host memory.

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
  /// Replaces the address of every tensor of `items` that is on a GPU by an address in pinned host memory. If all
  /// outputs of an item have the same content, they share one host copy. Throws Error(unavailable) if out of pinned
  /// memory.
  HostCopies(OperationKind kind, std::span<HostItem> items);
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  /// Leaks memory that a pending copy may still access.
  ~HostCopies();

  /// Copies the inputs to the host, on the streams of their devices, and waits for the copies. Throws
  /// Error(deadline_exceeded) after `timeout`, and Error(unavailable) if CUDA fails.
  void fetch(std::chrono::milliseconds timeout);
  /// Starts the copies of the outputs to their devices, on the streams of these devices.
  void deliver();
  /// Whether all copies that were started are done. Throws Error(unavailable) if CUDA fails.
  [[nodiscard]] bool is_done() const;

 private:
  struct Copy {
    const void* source;
    void* target;
    GpuPlace place;  // the tensor on the GPU, which is the source or the target
  };

  void place_inputs(HostItem& item, std::byte*& next);
  void place_outputs(OperationKind kind, HostItem& item, std::byte*& next);
  /// Starts `copies`, and records an event after the copies of each stream.
  void start(std::span<const Copy> copies);

  std::vector<Copy> inputs_;
  std::vector<Copy> outputs_;
  std::size_t bytes_ = 0;
  void* block_ = nullptr;
  std::map<Device, std::unique_ptr<cuda::OwnedEvent>> ends_;
};

}  // namespace lockstep::detail
