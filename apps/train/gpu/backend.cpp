// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
#include "train/gpu/backend.hpp"

namespace train::gpu {

Backend open_backend() {
  const CublasLibrary library = open_cublas();
  return {.cublas = library.api, .kernels = real_kernels(), .name = "cuBLAS " + library.version, .why = library.why};
}

}  // namespace train::gpu
