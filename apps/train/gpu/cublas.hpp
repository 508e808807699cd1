// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS as a table of calls: one name per call, no policy. The real one is opened at run time; tests bring their own.
// No header of CUDA is needed to use it.

#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace train::gpu {

/// cublasStatus_t.
using CublasStatus = int;
inline constexpr CublasStatus cublas_success = 0;

/// cublasHandle_t and cudaStream_t.
using CublasHandle = void*;
using Stream = void*;

/// cublasOperation_t.
enum class Operation : int { none = 0, transpose = 1 };

/// A matrix in device memory, column after column; `stride` elements from one column to the next.
struct Columns {
  Operation operation;
  const float* data;
  int stride;
};

/// The calls. Each does what cuBLAS' of the same name does. Thread-safe, each handle for one thread at a time.
class Cublas {
 public:
  virtual ~Cublas() = default;

  /// Of the calling thread's current device.
  [[nodiscard]] virtual CublasStatus create(CublasHandle& handle) = 0;
  [[nodiscard]] virtual CublasStatus destroy(CublasHandle handle) = 0;
  /// Takes the workspace away.
  [[nodiscard]] virtual CublasStatus set_stream(CublasHandle handle, Stream stream) = 0;
  /// Aligned to 256 bytes.
  [[nodiscard]] virtual CublasStatus set_workspace(CublasHandle handle, void* workspace, std::size_t bytes) = 0;
  /// c[m, n] = alpha * a[m, k] b[k, n] + beta * c, column-major.
  [[nodiscard]] virtual CublasStatus sgemm(CublasHandle handle, int m, int n, int k, float alpha, const Columns& a,
                                           const Columns& b, float beta, float* c, int c_stride) = 0;
  [[nodiscard]] virtual std::string status_name(CublasStatus status) const = 0;
};

/// What came of looking for cuBLAS.
struct CublasLibrary {
  std::shared_ptr<Cublas> api;  ///< null where there is none to be used; `why` says why
  std::string version;          ///< "13.1.0"
  std::string why;              ///< "cuBLAS does not open: libcublas.so.13: ...", "libm.so.6 has no cublasCreate_v2"
};

/// Looks for cuBLAS: the file that `path` names, or where it is empty libcublas.so of the version that this is built
/// with, else of 12 or 13. Never closed again. Thread-safe.
[[nodiscard]] CublasLibrary open_cublas(const std::string& path = {});

}  // namespace train::gpu
