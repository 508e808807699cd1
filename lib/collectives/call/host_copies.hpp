// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors on GPUs by way of host memory: copies that stand for them while an operation of hosts works.

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

/// Page-locked memory for the tensors of one call that lie on GPUs. Thread-safety: one thread at a time.
class HostCopies {
 public:
  /// Puts host memory in the place of every tensor of `items` that lies on a GPU; outputs of an item that get the same
  /// share one. Throws Error(unavailable) where there is no such memory left.
  HostCopies(OperationKind kind, std::span<HostItem> items);
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  /// Memory that a copy under way may touch is kept for ever.
  ~HostCopies();

  /// Copies the inputs, after what is on their devices' streams, and waits. Throws Error(deadline_exceeded) after
  /// `patience`, Error(unavailable) when CUDA fails.
  void fetch(std::chrono::milliseconds patience);
  /// Starts to copy the outputs to their devices, in order with the streams there.
  void deliver();
  /// Whether all copies are done. Throws Error(unavailable) when CUDA fails.
  [[nodiscard]] bool is_done() const;

 private:
  struct Copy {
    const void* source;
    void* target;
    GpuPlace place;  // of the one that lies on a device
  };

  void place_inputs(HostItem& item, std::byte*& next);
  void place_outputs(OperationKind kind, HostItem& item, std::byte*& next);
  /// Starts the copies, and marks where they end on each stream.
  void start(std::span<const Copy> copies);

  std::vector<Copy> inputs_;
  std::vector<Copy> outputs_;
  std::size_t bytes_ = 0;
  void* block_ = nullptr;
  std::map<Device, std::unique_ptr<cuda::OwnedEvent>> ends_;
};

}  // namespace lockstep::detail
