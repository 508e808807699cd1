// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
#include "train/gpu/products.hpp"

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace train::gpu {
namespace {

// NVIDIA's recommendation for Hopper; 4 MiB would suffice for older GPUs.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
constexpr std::size_t workspace_alignment = 256;

/// A row-major matrix, transposed or not, as the transpose of a column-major one.
Columns transpose_of(Factor factor, std::int64_t rows, std::int64_t columns) {
  if (factor.layout == Layout::plain) return {Operation::none, factor.data, static_cast<int>(columns)};
  return {Operation::transpose, factor.data, static_cast<int>(rows)};
}

}  // namespace

Products::Products(lockstep::Device device, std::shared_ptr<Cublas> cublas)
    : device_(device),
      cublas_(std::move(cublas)),
      workspace_(lockstep::Tensor::uninitialized(
          lockstep::DType::u8, lockstep::Shape{static_cast<std::int64_t>(workspace_bytes + workspace_alignment)},
          nullptr, device)) {
  check(cublas_->create(handle_), "cublasCreate");
  try {
    check(cublas_->set_stream(handle_, lockstep::stream_handle(device)), "cublasSetStream");
    void* begin = workspace_.data();
    std::size_t space = workspace_.byte_count();
    std::align(workspace_alignment, workspace_bytes, begin, space);
    check(cublas_->set_workspace(handle_, begin, workspace_bytes), "cublasSetWorkspace");
  } catch (...) {
    (void)cublas_->destroy(handle_);
    throw;
  }
}

Products::~Products() {
  try {
    lockstep::synchronize(device_);
  } catch (const std::exception&) {
    return;
  }
  (void)cublas_->destroy(handle_);
}

void Products::gemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor a, Factor b, float* c) {
  // c^T = b^T a^T
  check(cublas_->sgemm(handle_, static_cast<int>(n), static_cast<int>(m), static_cast<int>(k), 1, transpose_of(b, k, n),
                       transpose_of(a, m, k), 0, c, static_cast<int>(n)),
        "cublasSgemm");
}

void Products::check(CublasStatus status, const char* call) const {
  if (status != cublas_success)
    throw std::runtime_error(std::string(call) + " failed: " + cublas_->status_name(status));
}

}  // namespace train::gpu
