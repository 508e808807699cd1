// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What models on GPUs compute with.

#pragma once

#include "train/gpu/cublas.hpp"
#include "train/gpu/kernels.hpp"

#include <memory>
#include <string>

namespace train::gpu {

struct Backend {
  std::shared_ptr<Cublas> cublas;  ///< null where there is none to be used; `why` says why
  std::shared_ptr<Kernels> kernels;
  std::string name;  ///< "cuBLAS 13.1.0"
  std::string why;
};

/// What is on this machine. Thread-safe.
[[nodiscard]] Backend open_backend();

}  // namespace train::gpu
