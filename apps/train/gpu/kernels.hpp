// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels besides cuBLAS, behind a table like that of cuBLAS.

#pragma once

#include "train/gpu/bodies.hpp"

#include <cstdint>
#include <memory>

namespace train::gpu {

/// `launch` calls `body` with every number below `count`, each in a thread of its own, asynchronously on `stream`, a
/// cudaStream_t of the calling thread's current device. The pointers of a body refer to memory of that device.
/// Thread-safe. All functions throw std::runtime_error if CUDA fails.
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

/// The real kernels; null in a build without CUDA.
[[nodiscard]] std::shared_ptr<Kernels> real_kernels();

}  // namespace train::gpu
