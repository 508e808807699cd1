// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches on their way to the replicas' GPUs, beside what these compute.

#pragma once

#include "input/distributed_implementation.hpp"

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <memory>
#include <vector>

namespace lockstep::input {

class FetchMemory;

/// Copies go on streams of their own, so that they wait for no kernel of the replica's; they are done before a batch is
/// given. Thread-safety: one thread at a time.
class DeviceFetch {
 public:
  /// `devices[i]` is where local replica i's batches go; those of CPUs, and of replicas without one, stay where they
  /// are. Throws Error(unavailable) where a GPU is not here.
  explicit DeviceFetch(const std::vector<Device>& devices);
  DeviceFetch(const DeviceFetch&) = delete;
  DeviceFetch& operator=(const DeviceFetch&) = delete;
  ~DeviceFetch();

  /// For the tensors of batches: page-locked where they go to GPUs.
  [[nodiscard]] std::shared_ptr<MemoryResource> host_memory() const;
  /// Replaces the tensors of every batch that goes to a GPU. Throws Error(unavailable) when CUDA fails,
  /// Error(deadline_exceeded) when a device takes too long.
  void fetch(StepBatches& step);

 private:
  void start(Leaves& batch, const std::shared_ptr<FetchMemory>& memory);
  void wait() const;

  std::vector<std::shared_ptr<FetchMemory>> memory_;  // by local replica; null for a CPU
  Leaves sources_;                                    // what copies under way read
};

}  // namespace lockstep::input
