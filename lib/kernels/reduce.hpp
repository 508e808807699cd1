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
  /// Whether its elements are partial results in accumulation_dtype(op, dtype), as opposed to leaves in `dtype`.
  bool accumulated = false;
};

/// The form of the result of a fold.
enum class FoldResult : std::uint8_t {
  partial,   ///< the accumulated value, to be folded further
  finished,  ///< the root: divided for a mean, rounded to the result type, NaN made canonical
};

struct Fold {
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;              ///< element type of the leaves
  std::span<const FoldInput> inputs;     ///< in replica id order
  std::span<const std::uint8_t> merges;  ///< from fold_merges, one per input
  std::span<void* const> outputs;        ///< each gets the result
  FoldResult result = FoldResult::finished;
  int replicas = 1;  ///< divisor of a finished mean
  /// Whether outputs are written by non-temporal stores, followed by a store fence: for results that the caches would
  /// evict before they are read. Applies to outputs with the same offset from a vector boundary as the first one.
  bool stream = false;
};

/// The deepest stack that `reduce` supports: enough for trees of up to 2^20 replicas.
inline constexpr int max_stack_depth = 22;

/// Evaluates `fold` for `count` elements. Every pointer is aligned to its elements. An output may be exactly one of the
/// inputs if their elements have the same size; other overlaps are not allowed. Integers wrap. Reads and writes each
/// element once (a few elements twice, at the end), and accesses nothing outside the arrays. Thread-safety: any thread.
/// Does not allocate.
void reduce(const Fold& fold, std::int64_t count);

/// The function that `reduce` calls for folds of one op and dtype.
using ReduceFunction = void (*)(const Fold& fold, std::int64_t count);

/// The kernel of this processor for `op` and `dtype`, which `op` must support: for prepared calls, which choose once.
/// It does not check that its fold has that op and dtype, at least one input, and as many merges as inputs.
[[nodiscard]] ReduceFunction reduce_function(ReduceOp op, DType dtype);

// The functions from which `reduce_function` chooses: one source per function, compiled for every target, so that they
// compile in parallel. Each returns the kernel of the best target of this processor, or null for a type that it does
// not support.
[[nodiscard]] ReduceFunction sum_function(DType dtype);
[[nodiscard]] ReduceFunction integer_mean_function(DType dtype);
[[nodiscard]] ReduceFunction minimum_function(DType dtype);
[[nodiscard]] ReduceFunction maximum_function(DType dtype);
[[nodiscard]] ReduceFunction product_function(DType dtype);
[[nodiscard]] ReduceFunction bits_function(ReduceOp op, DType dtype);

}  // namespace lockstep::detail
