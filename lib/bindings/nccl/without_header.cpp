// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A build with CUDA, but without nccl.h.

#include "bindings/nccl/nccl.hpp"

namespace lockstep::detail::nccl {

Library open_library(const std::string&) { return {.why = "built without NCCL's header"}; }

}  // namespace lockstep::detail::nccl
