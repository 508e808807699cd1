// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies batches to the replicas' GPUs, concurrently with the replicas' computation.

#pragma once

#include "input/distributed_implementation.hpp"

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <memory>
#include <vector>

namespace lockstep::input {

class FetchMemory;

/// The copies run on separate streams, so that they do not wait for the replicas' kernels. `fetch` returns when its
/// copies are complete. Thread-safety: one thread at a time.
class DeviceFetch {
 public:
  /// `devices[i]` is the device of local replica i's batches. Batches for CPUs, and batches of replicas without an
  /// entry in `devices`, stay in host memory. Throws Error(unavailable) if a GPU is not available.
  explicit DeviceFetch(const std::vector<Device>& devices);
  DeviceFetch(const DeviceFetch&) = delete;
  DeviceFetch& operator=(const DeviceFetch&) = delete;
  ~DeviceFetch();

  /// Host memory for the tensors of batches; pinned if the batches of any replica are copied to a GPU.
  [[nodiscard]] std::shared_ptr<MemoryResource> host_memory() const;
  /// If a batch is for a GPU, replaces its tensors by copies on that GPU. If a batch is for a CPU, its tensors are on
  /// that CPU afterwards. Throws Error(unavailable) if CUDA fails, and Error(deadline_exceeded) if a device takes too
  /// long.
  void fetch(StepBatches& step);

 private:
  void start(Leaves& batch, const std::shared_ptr<FetchMemory>& memory);
  void wait() const;

  std::vector<Device> devices_;                       // by local replica
  std::vector<std::shared_ptr<FetchMemory>> memory_;  // by local replica; null for a CPU
  Leaves sources_;                                    // sources of pending copies
};

}  // namespace lockstep::input
