// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bindings/nccl/nccl.hpp"

namespace lockstep::detail::nccl {

bool is_reducible(DType dtype) noexcept { return dtype != DType::i16 && dtype != DType::u16; }

}  // namespace lockstep::detail::nccl
