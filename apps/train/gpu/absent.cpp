// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// For a build without CUDA or without the header of cuBLAS.

#include "train/gpu/cublas.hpp"
#include "train/gpu/kernels.hpp"

namespace train::gpu {

CublasLibrary open_cublas(const std::string&) { return {.why = "built without CUDA or without cublas_v2.h"}; }

std::shared_ptr<Kernels> real_kernels() { return nullptr; }

}  // namespace train::gpu
