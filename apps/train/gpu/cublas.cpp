// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of the real cuBLAS. The library is opened at run time, so that one program serves machines with and without
// it; the types of its functions come from the header of this build.

#include "train/gpu/cublas.hpp"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <fmt/format.h>

namespace train::gpu {
namespace {

static_assert(static_cast<CublasStatus>(CUBLAS_STATUS_SUCCESS) == cublas_success);
static_assert(static_cast<Operation>(CUBLAS_OP_N) == Operation::none);
static_assert(static_cast<Operation>(CUBLAS_OP_T) == Operation::transpose);

// All functions in use, by their names without "cublas".
#define TRAIN_CUBLAS_FUNCTIONS(X) \
  X(Create_v2)                    \
  X(Destroy_v2)                   \
  X(GetProperty)                  \
  X(GetStatusName)                \
  X(SetStream_v2)                 \
  X(SetWorkspace_v2)              \
  X(Sgemm_v2)

struct Functions {
#define TRAIN_MEMBER(name) decltype(&cublas##name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a name
  TRAIN_CUBLAS_FUNCTIONS(TRAIN_MEMBER)
#undef TRAIN_MEMBER
};

/// The name of a function that `library` lacks; empty if all were found.
std::string resolve(void* library, Functions& functions) {
#define TRAIN_RESOLVE(name)                                                                     \
  functions.name = reinterpret_cast<decltype(&cublas##name)>(::dlsym(library, "cublas" #name)); \
  if (functions.name == nullptr) return "cublas" #name;
  TRAIN_CUBLAS_FUNCTIONS(TRAIN_RESOLVE)
#undef TRAIN_RESOLVE
  return {};
}
#undef TRAIN_CUBLAS_FUNCTIONS

cublasHandle_t native(CublasHandle handle) { return static_cast<cublasHandle_t>(handle); }
cublasOperation_t native(Operation operation) { return static_cast<cublasOperation_t>(operation); }

class Opened final : public Cublas {
 public:
  explicit Opened(const Functions& functions) : call_(functions) {}

  CublasStatus create(CublasHandle& handle) override {
    cublasHandle_t made = nullptr;
    const cublasStatus_t status = call_.Create_v2(&made);
    handle = made;
    return status;
  }
  CublasStatus destroy(CublasHandle handle) override { return call_.Destroy_v2(native(handle)); }
  CublasStatus set_stream(CublasHandle handle, Stream stream) override {
    return call_.SetStream_v2(native(handle), static_cast<cudaStream_t>(stream));
  }
  CublasStatus set_workspace(CublasHandle handle, void* workspace, std::size_t bytes) override {
    return call_.SetWorkspace_v2(native(handle), workspace, bytes);
  }
  CublasStatus sgemm(CublasHandle handle, int m, int n, int k, float alpha, const Columns& a, const Columns& b,
                     float beta, float* c, int c_stride) override {
    return call_.Sgemm_v2(native(handle), native(a.operation), native(b.operation), m, n, k, &alpha, a.data, a.stride,
                          b.data, b.stride, &beta, c, c_stride);
  }
  std::string status_name(CublasStatus status) const override {
    return call_.GetStatusName(static_cast<cublasStatus_t>(status));
  }

 private:
  Functions call_;
};

std::string version_of(const Functions& call) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  (void)call.GetProperty(MAJOR_VERSION, &major);
  (void)call.GetProperty(MINOR_VERSION, &minor);
  (void)call.GetProperty(PATCH_LEVEL, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

CublasLibrary open_file(const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {.why = fmt::format("cannot open cuBLAS: {}", ::dlerror())};
  Functions functions;
  if (const std::string missing = resolve(library, functions); !missing.empty())
    return {.why = fmt::format("{} has no {}", file, missing)};
  return {.api = std::make_shared<Opened>(functions), .version = version_of(functions), .why = {}};
}

}  // namespace

CublasLibrary open_cublas(const std::string& path) {
  if (!path.empty()) return open_file(path);
  // the header's version first: a newer one may need a newer driver than the CUDA runtime of this program
  CublasLibrary own = open_file(fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR));
  if (own.api != nullptr) return own;
  CublasLibrary other = open_file(CUBLAS_VER_MAJOR == 12 ? "libcublas.so.13" : "libcublas.so.12");
  return other.api != nullptr ? other : own;
}

}  // namespace train::gpu
