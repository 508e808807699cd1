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

/// Products on the stream of one device, with a handle and a workspace of their own: so equal sizes and values give
/// equal bits, on one kind of GPU and by one version of cuBLAS, whatever else runs there. They are of fp32 throughout:
/// cuBLAS takes TF32 only where it is told to. All calls are made with the device as the calling thread's current one,
/// one at a time.
class Products {
 public:
  /// Throws std::runtime_error when cuBLAS fails, std::bad_alloc when the device has no 32 MiB left.
  Products(lockstep::Device device, std::shared_ptr<Cublas> cublas);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  /// Waits for the stream as long as copies do; cuBLAS itself would wait for ever. What does not end keeps the handle.
  ~Products();

  /// As train::gemm, asynchronously on the device's stream, of arrays in its memory. Sizes fit an int; k is not 0.
  /// Throws std::runtime_error when cuBLAS fails.
  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor a, Factor b, float* c);

 private:
  void check(CublasStatus status, const char* call) const;

  lockstep::Device device_;
  std::shared_ptr<Cublas> cublas_;
  lockstep::Tensor workspace_;
  CublasHandle handle_ = nullptr;
};

}  // namespace train::gpu
