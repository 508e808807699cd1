// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/dtype.hpp>

#include "bindings/nccl/nccl.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::test {

/// Sets `target` to a result that NCCL may compute from `sources`, one per rank, of `count` elements each, not
/// including `target`: in the elements' own type, and for each block of elements in an order of ranks that `seed`
/// decides.
void fold_as_nccl(std::byte* target, std::span<const std::byte* const> sources, std::size_t count, DType dtype,
                  detail::nccl::RedOp op, std::uint64_t seed);

}  // namespace lockstep::test
