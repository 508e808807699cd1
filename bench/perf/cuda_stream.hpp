// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of CUDA's runtime that a program needs to call NCCL.

#pragma once

#include <string>

namespace perf {

/// A CUDA stream. Pinned. All functions throw std::runtime_error with CUDA's text.
class CudaStream {
 public:
  /// Makes `device` the thread's current device.
  explicit CudaStream(int device);
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();

  /// A cudaStream_t.
  [[nodiscard]] void* handle() const noexcept { return handle_; }
  /// Makes the stream's device the thread's current device.
  void make_current() const;
  /// Waits until all work on the stream is complete.
  void wait() const;

 private:
  int device_;
  void* handle_ = nullptr;
};

/// The PCI bus id of GPU number `index` of this process. NCCL distinguishes the GPUs of a node by it. Local.
[[nodiscard]] std::string pci_bus_id(int index);

}  // namespace perf
