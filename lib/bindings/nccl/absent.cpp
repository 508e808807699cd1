// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A build without CUDA.

#include "bindings/nccl/nccl.hpp"

namespace lockstep::detail::nccl {

Library open_library(const std::string&) { return {.why = "built without CUDA"}; }

}  // namespace lockstep::detail::nccl
