// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A build without CUDA.

#include "bindings/cuda/cuda.hpp"

namespace lockstep::detail::cuda {

std::shared_ptr<Api> real_api() { return nullptr; }

}  // namespace lockstep::detail::cuda
