// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The reduction kernel: many inputs, one pass, many outputs, along a fold of the canonical tree.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <cstdint>
#include <span>

namespace lockstep::detail {

/// One input of a fold.
struct FoldInput {
  const void* data = nullptr;
  /// Whether its elements are partial results, in accumulation_dtype(op, dtype), and not leaves in `dtype`.
  bool accumulated = false;
};

/// What a fold leaves behind.
enum class FoldResult : std::uint8_t {
  partial,   ///< the accumulated value, to be folded further
  finished,  ///< the root: divided for a mean, rounded to the result type, NaN made canonical
};

struct Fold {
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;              ///< of the leaves
  std::span<const FoldInput> inputs;     ///< in replica id order
  std::span<const std::uint8_t> merges;  ///< from fold_merges, one per input
  std::span<void* const> outputs;        ///< each gets the result
  FoldResult result = FoldResult::finished;
  int replicas = 1;  ///< divisor of a finished mean
};

/// The deepest stack that `reduce` can hold: trees of up to 2^20 replicas.
inline constexpr int max_stack_depth = 22;

/// Evaluates `fold` for `count` elements. An output may be exactly one of the inputs when their elements have the same
/// size; other overlaps are not allowed. Integers wrap. Reads and writes each element once.
void reduce(const Fold& fold, std::int64_t count);

}  // namespace lockstep::detail
