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
  /// Outputs are written past the caches, where they are aligned to whole vectors as the first of them can be, and a
  /// store fence follows: for results that nobody reads before they would have left the caches.
  bool stream = false;
};

/// The deepest stack that `reduce` can hold: trees of up to 2^20 replicas.
inline constexpr int max_stack_depth = 22;

/// Evaluates `fold` for `count` elements. Every pointer is aligned to its elements. An output may be exactly one of the
/// inputs when their elements have the same size; other overlaps are not allowed. Integers wrap. Reads and writes each
/// element once (a few of them twice, at the end), and nothing outside. Thread-safety: any thread. Does not allocate.
void reduce(const Fold& fold, std::int64_t count);

/// What `reduce` calls for folds of this op and dtype.
using ReduceFunction = void (*)(const Fold& fold, std::int64_t count);

/// The kernel of this processor for `op` and `dtype`, which `op` must take: for prepared calls, which choose once. It
/// trusts its fold to have that op and dtype, an input at least, and as many merges as inputs.
[[nodiscard]] ReduceFunction reduce_function(ReduceOp op, DType dtype);

}  // namespace lockstep::detail
