// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A build without CUDA.

#include "device/cuda/kernels.hpp"

namespace lockstep::detail::cuda {

std::shared_ptr<Kernels> real_kernels() { return nullptr; }

}  // namespace lockstep::detail::cuda
