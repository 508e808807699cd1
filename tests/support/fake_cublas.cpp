// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cublas.hpp"

#include "support/fake_handles.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace train::test {
namespace {

using CudaStatus = lockstep::detail::cuda::Status;

/// A matrix of a product: the length of a stored column, and the number of columns.
struct Stored {
  Stored(const gpu::Columns& matrix, int rows, int columns)
      : data(matrix.data),
        stride(matrix.stride),
        height(matrix.operation == gpu::Operation::none ? rows : columns),
        width(matrix.operation == gpu::Operation::none ? columns : rows) {}

  [[nodiscard]] bool fits() const { return height > 0 && width > 0 && stride >= height; }
  [[nodiscard]] std::size_t bytes() const {
    return (static_cast<std::size_t>(stride) * static_cast<std::size_t>(width - 1) + static_cast<std::size_t>(height)) *
           sizeof(float);
  }

  const float* data;
  int stride;
  int height;
  int width;
};

/// The elements [rows, columns] of `matrix`, column by column, without gaps.
std::vector<float> dense(const gpu::Columns& matrix, const float* elements, int rows, int columns) {
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const bool is_plain = matrix.operation == gpu::Operation::none;
      result.push_back(elements[is_plain ? row + column * matrix.stride : column + row * matrix.stride]);
    }
  }
  return result;
}

/// c[m, n] = alpha * a[m, k] b[k, n] + beta * c, without gaps except in c.
struct Product {
  int m, n, k;
  float alpha, beta;
  int c_stride;

  void compute(const std::vector<float>& a, const std::vector<float>& b, float* c) const {
    std::vector<float> column(static_cast<std::size_t>(m));
    for (std::int64_t j = 0; j < n; ++j, c += c_stride) {
      std::fill(column.begin(), column.end(), 0.0F);
      for (std::int64_t p = 0; p < k; ++p) {
        const float factor = b[static_cast<std::size_t>(p + j * k)];
        const float* const source = a.data() + p * m;
        for (std::size_t i = 0; i < column.size(); ++i) column[i] += source[i] * factor;
      }
      for (std::size_t i = 0; i < column.size(); ++i) c[i] = alpha * column[i] + (beta == 0 ? 0 : beta * c[i]);
    }
  }
};

}  // namespace

template <class Body>
FakeCublas::Status FakeCublas::call(const std::string& name, gpu::CublasHandle handle, const Body& body) {
  if (const auto failure = calls_.enter(name)) return *failure;
  const std::scoped_lock lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? not_initialized : body(found->second);
}

FakeCublas::Status FakeCublas::create(gpu::CublasHandle& handle) {
  if (const auto failure = calls_.enter("create")) return *failure;
  const std::scoped_lock lock(mutex_);
  handle = lockstep::test::new_handle();
  handles_[handle] = {.device = cuda_.current_device()};
  return gpu::cublas_success;
}

FakeCublas::Status FakeCublas::destroy(gpu::CublasHandle handle) {
  if (const auto failure = calls_.enter("destroy")) return *failure;
  const std::scoped_lock lock(mutex_);
  return handles_.erase(handle) == 1 ? gpu::cublas_success : not_initialized;
}

FakeCublas::Status FakeCublas::set_stream(gpu::CublasHandle handle, gpu::Stream stream) {
  return call("set_stream", handle, [&](State& state) {
    state.stream = stream;
    state.workspace = nullptr;
    return gpu::cublas_success;
  });
}

FakeCublas::Status FakeCublas::set_workspace(gpu::CublasHandle handle, void* workspace, std::size_t bytes) {
  return call("set_workspace", handle, [&](State& state) {
    const bool fits =
        reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0 && cuda_.memory().find(workspace, bytes).has_value();
    if (!fits) return invalid_value;
    state.workspace = workspace;
    return gpu::cublas_success;
  });
}

FakeCublas::Status FakeCublas::sgemm(gpu::CublasHandle handle, int m, int n, int k, float alpha, const gpu::Columns& a,
                                     const gpu::Columns& b, float beta, float* c, int c_stride) {
  return call("sgemm", handle, [&](const State& state) {
    const Stored left(a, m, k);
    const Stored right(b, k, n);
    const Stored result({gpu::Operation::none, c, c_stride}, m, n);
    if (!left.fits() || !right.fits() || !result.fits()) return invalid_value;
    if (state.stream == nullptr || state.workspace == nullptr) return not_initialized;
    const Product product{m, n, k, alpha, beta, c_stride};
    const auto work = [=, &memory = cuda_.memory(), device = state.device] {
      const auto elements = [&](const Stored& stored) {
        return reinterpret_cast<float*>(memory.reach(stored.data, stored.bytes(), device));
      };
      const float* const from_a = elements(left);
      const float* const from_b = elements(right);
      float* const to = elements(result);
      if (from_a == nullptr || from_b == nullptr || to == nullptr) return CudaStatus::illegal_address;
      product.compute(dense(a, from_a, m, k), dense(b, from_b, k, n), to);
      return CudaStatus::success;
    };
    return cuda_.launch("sgemm", state.stream, work) == CudaStatus::success ? gpu::cublas_success : execution_failed;
  });
}

std::string FakeCublas::status_name(Status status) const {
  switch (status) {
    case not_initialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case invalid_value: return "CUBLAS_STATUS_INVALID_VALUE";
    case execution_failed: return "CUBLAS_STATUS_EXECUTION_FAILED";
    default: return "CUBLAS_STATUS_" + std::to_string(status);
  }
}

std::size_t FakeCublas::handles() const {
  const std::scoped_lock lock(mutex_);
  return handles_.size();
}

}  // namespace train::test
