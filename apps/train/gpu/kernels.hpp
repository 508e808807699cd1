// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What runs on a GPU beside cuBLAS, behind a table as cuBLAS itself is.

#pragma once

#include "train/gpu/bodies.hpp"

#include <cstdint>
#include <memory>

namespace train::gpu {

/// `launch` calls `body` with every number below `count`, as a thread each, asynchronously on `stream`, a cudaStream_t
/// of the calling thread's current device; what a body points to is that device's memory. Thread-safe. All throw
/// std::runtime_error when CUDA fails.
class Kernels {
 public:
  using Stream = void*;

  virtual ~Kernels() = default;

  /// Makes `device` the calling thread's current one.
  virtual void use(int device) = 0;

  virtual void launch(const AddBiasAndRelu& body, std::int64_t count, Stream stream) = 0;
  virtual void launch(const ReluGradients& body, std::int64_t count, Stream stream) = 0;
  virtual void launch(const SoftmaxCrossEntropy& body, std::int64_t count, Stream stream) = 0;
  virtual void launch(const MarkCorrect& body, std::int64_t count, Stream stream) = 0;
  virtual void launch(const SumRows<float>& body, std::int64_t count, Stream stream) = 0;
  virtual void launch(const SumRows<double>& body, std::int64_t count, Stream stream) = 0;
};

/// CUDA's own; null in a build without.
[[nodiscard]] std::shared_ptr<Kernels> real_kernels();

}  // namespace train::gpu
