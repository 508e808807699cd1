// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/cuda_stream.hpp"

#include <cuda_runtime_api.h>

#include <fmt/format.h>

#include <array>
#include <stdexcept>

namespace perf {
namespace {

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", call, cudaGetErrorString(error)));
}

}  // namespace

CudaStream::CudaStream(int device) : device_(device) {
  make_current();
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  handle_ = made;
}

CudaStream::~CudaStream() { cudaStreamDestroy(static_cast<cudaStream_t>(handle_)); }

void CudaStream::make_current() const { check(cudaSetDevice(device_), "cudaSetDevice"); }

void CudaStream::wait() const {
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(handle_)), "cudaStreamSynchronize");
}

std::string pci_bus_id(int index) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), index), "cudaDeviceGetPCIBusId");
  return text.data();
}

}  // namespace perf
