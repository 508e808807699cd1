// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The oracle of every reduction: the canonical tree, evaluated one element at a time by its definition. Slow,
// sequential, obviously right, and sharing no code with the library but the element types.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::test {

using Bytes = std::vector<std::byte>;

/// The reduction of the values of all replicas. `leaves[r]` holds the elements of replica r; all have the same number.
[[nodiscard]] Bytes canonical_reduce(ReduceOp op, DType dtype, const std::vector<Bytes>& leaves);

/// The same replicas folded from left to right instead, to show that a test can tell the difference.
[[nodiscard]] Bytes left_fold(ReduceOp op, DType dtype, const std::vector<Bytes>& leaves);

/// `count` elements of `dtype` for one replica: of mixed magnitudes, so that the order of additions changes the bits,
/// and with occasional zeros of either sign, subnormals, infinities and NaNs.
[[nodiscard]] Bytes awkward_values(DType dtype, std::int64_t count, std::uint64_t seed);

}  // namespace lockstep::test
