// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
#include "train/gpu/kernels.hpp"

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace train::gpu {
namespace {

constexpr int threads_per_block = 128;

template <class Body>
__global__ void __launch_bounds__(threads_per_block)
    each(const __grid_constant__ Body body, const __grid_constant__ std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (i < count) body(i);
}

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(error));
}

template <class Body>
void launch_each(Body body, std::int64_t count, void* stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + threads_per_block - 1) / threads_per_block);
  void* values[]{&body, &count};
  check(
      cudaLaunchKernel(each<Body>, dim3(blocks), dim3(threads_per_block), values, 0, static_cast<cudaStream_t>(stream)),
      "cudaLaunchKernel");
}

class RealKernels final : public Kernels {
 public:
  void use(int device) override { check(cudaSetDevice(device), "cudaSetDevice"); }

  void launch(const AddBiasAndRelu& body, std::int64_t count, Stream stream) override {
    launch_each(body, count, stream);
  }
  void launch(const ReluGradients& body, std::int64_t count, Stream stream) override {
    launch_each(body, count, stream);
  }
  void launch(const SoftmaxCrossEntropy& body, std::int64_t count, Stream stream) override {
    launch_each(body, count, stream);
  }
  void launch(const MarkCorrect& body, std::int64_t count, Stream stream) override { launch_each(body, count, stream); }
  void launch(const SumRows<float>& body, std::int64_t count, Stream stream) override {
    launch_each(body, count, stream);
  }
  void launch(const SumRows<double>& body, std::int64_t count, Stream stream) override {
    launch_each(body, count, stream);
  }
};

}  // namespace

std::shared_ptr<Kernels> real_kernels() { return std::make_shared<RealKernels>(); }

}  // namespace train::gpu
