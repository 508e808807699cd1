// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The libraries that models on GPUs compute with.

#pragma once

#include "train/gpu/cublas.hpp"
#include "train/gpu/kernels.hpp"

#include <memory>
#include <string>

namespace train::gpu {

struct Backend {
  std::shared_ptr<Cublas> cublas;  ///< null if unavailable; `why` is the reason
  std::shared_ptr<Kernels> kernels;
  std::string name;  ///< "cuBLAS 13.1.0"
  std::string why;
};

/// Opens the backend of this machine. Thread-safe.
[[nodiscard]] Backend open_backend();

}  // namespace train::gpu
