// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/dtype.hpp>

#include "bindings/nccl/nccl.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::test {

/// `target` becomes what NCCL may make of `sources`, one per rank, of `count` elements each, none of which is `target`:
/// added in the elements' own type, in an order of ranks that `seed` says for each piece of the elements.
void fold_as_nccl(std::byte* target, std::span<const std::byte* const> sources, std::size_t count, DType dtype,
                  detail::nccl::RedOp op, std::uint64_t seed);

}  // namespace lockstep::test
