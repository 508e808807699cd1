// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of float by cuBLAS, on one stream.

#pragma once

#include "train/gemm.hpp"
#include "train/gpu/cublas.hpp"

#include <lockstep/lockstep.hpp>

#include <cstdint>
#include <memory>

namespace train::gpu {

/// Products on the stream of one device, with their own handle and workspace, so that equal sizes and values give equal
/// bits, on one kind of GPU and with one version of cuBLAS, whatever else runs there. All arithmetic is fp32: cuBLAS
/// uses TF32 only on request. All calls are made with the device as the calling thread's current device, one at a time.
class Products {
 public:
  /// Throws std::runtime_error if cuBLAS fails, std::bad_alloc if the device cannot allocate 32 MiB.
  Products(lockstep::Device device, std::shared_ptr<Cublas> cublas);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  /// Waits for the stream, with the deadline of copies; cuBLAS itself would wait without a bound. If the stream does
  /// not finish, the handle is leaked.
  ~Products();

  /// As train::gemm, asynchronously on the device's stream, of arrays in its memory. Sizes fit an int; k is not 0.
  /// Throws std::runtime_error if cuBLAS fails.
  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor a, Factor b, float* c);

 private:
  void check(CublasStatus status, const char* call) const;

  lockstep::Device device_;
  std::shared_ptr<Cublas> cublas_;
  lockstep::Tensor workspace_;
  CublasHandle handle_ = nullptr;
};

}  // namespace train::gpu
