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

/// A column-major matrix in device memory; `stride` is the distance of columns in elements.
struct Columns {
  Operation operation;
  const float* data;
  int stride;
};

/// The calls, each as the cuBLAS function of the same name. Thread-safe; one thread at a time per handle.
class Cublas {
 public:
  virtual ~Cublas() = default;

  /// A handle of the calling thread's current device.
  [[nodiscard]] virtual CublasStatus create(CublasHandle& handle) = 0;
  [[nodiscard]] virtual CublasStatus destroy(CublasHandle handle) = 0;
  /// Resets the workspace.
  [[nodiscard]] virtual CublasStatus set_stream(CublasHandle handle, Stream stream) = 0;
  /// `workspace` is aligned to 256 bytes.
  [[nodiscard]] virtual CublasStatus set_workspace(CublasHandle handle, void* workspace, std::size_t bytes) = 0;
  /// c[m, n] = alpha * a[m, k] b[k, n] + beta * c, column-major.
  [[nodiscard]] virtual CublasStatus sgemm(CublasHandle handle, int m, int n, int k, float alpha, const Columns& a,
                                           const Columns& b, float beta, float* c, int c_stride) = 0;
  [[nodiscard]] virtual std::string status_name(CublasStatus status) const = 0;
};

/// The result of opening cuBLAS.
struct CublasLibrary {
  std::shared_ptr<Cublas> api;  ///< null if unavailable; `why` is the reason
  std::string version;          ///< "13.1.0"
  std::string why;              ///< "cannot open cuBLAS: libcublas.so.13: ...", "libm.so.6 has no cublasCreate_v2"
};

/// Opens cuBLAS: the file that `path` names; if it is empty, libcublas.so of the version of this build, else of 12 or
/// 13. It is never closed. Thread-safe.
[[nodiscard]] CublasLibrary open_cublas(const std::string& path = {});

}  // namespace train::gpu
