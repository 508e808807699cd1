// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS without GPUs: the table that lockstep-train uses, over a fake CUDA's memory and streams.

#pragma once

#include "support/fake_calls.hpp"
#include "support/fake_cuda.hpp"
#include "train/gpu/cublas.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace train::test {

/// Stricter than cuBLAS: a handle multiplies only if its stream and workspace were set and its device is the current
/// one, and matrices are not empty and reside in blocks of the device. Multiplies in the order of the definition.
/// Thread-safe.
class FakeCublas final : public gpu::Cublas {
 public:
  using Status = gpu::CublasStatus;
  static constexpr Status not_initialized = 1;
  static constexpr Status invalid_value = 7;
  static constexpr Status execution_failed = 13;

  explicit FakeCublas(lockstep::test::FakeCuda& cuda) : cuda_(cuda) {}

  // The table.
  Status create(gpu::CublasHandle& handle) override;
  Status destroy(gpu::CublasHandle handle) override;
  Status set_stream(gpu::CublasHandle handle, gpu::Stream stream) override;
  Status set_workspace(gpu::CublasHandle handle, void* workspace, std::size_t bytes) override;
  Status sgemm(gpu::CublasHandle handle, int m, int n, int k, float alpha, const gpu::Columns& a, const gpu::Columns& b,
               float beta, float* c, int c_stride) override;
  [[nodiscard]] std::string status_name(Status status) const override;

  // For tests.

  /// Counts calls by name, and makes chosen ones fail.
  [[nodiscard]] lockstep::test::FakeCalls<Status>& calls() { return calls_; }
  [[nodiscard]] std::size_t handles() const;

 private:
  struct State {
    int device = 0;
    gpu::Stream stream = nullptr;
    void* workspace = nullptr;
  };

  /// `body(state)` if the handle is valid and the call is not to fail.
  template <class Body>
  Status call(const std::string& name, gpu::CublasHandle handle, const Body& body);

  lockstep::test::FakeCuda& cuda_;
  lockstep::test::FakeCalls<Status> calls_;
  mutable std::mutex mutex_;
  std::map<gpu::CublasHandle, State> handles_;  // guarded by mutex_
};

}  // namespace train::test
