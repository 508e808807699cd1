// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a program needs of CUDA's runtime that calls NCCL.

#pragma once

#include <string>

namespace perf {

/// A stream of a GPU. Pinned. All throw std::runtime_error with CUDA's words.
class CudaStream {
 public:
  /// `device` is the thread's current one then.
  explicit CudaStream(int device);
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();

  /// A cudaStream_t.
  [[nodiscard]] void* handle() const noexcept { return handle_; }
  /// Makes its device the thread's current one.
  void make_current() const;
  /// Until all that is on it is done.
  void wait() const;

 private:
  int device_;
  void* handle_ = nullptr;
};

/// Where GPU number `index` of this process is, by which NCCL tells the GPUs of a node apart. Local.
[[nodiscard]] std::string pci_bus_id(int index);

}  // namespace perf
