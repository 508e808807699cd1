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
  /// True if the elements are partial results in accumulation_dtype(op, dtype); false if they are leaves in `dtype`.
  bool accumulated = false;
};

/// The form of the result of a fold.
enum class FoldResult : std::uint8_t {
  partial,   ///< the accumulated value, to be folded further
  finished,  ///< the final result: divided for a mean, rounded to the result type, NaN made canonical
};

struct Fold {
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;              ///< element type of the leaves
  std::span<const FoldInput> inputs;     ///< in replica id order
  std::span<const std::uint8_t> merges;  ///< from fold_merges, one per input
  std::span<void* const> outputs;        ///< every output receives the result
  FoldResult result = FoldResult::finished;
  int replicas = 1;  ///< divisor of a finished mean
  /// Whether outputs are written by non-temporal stores, followed by a store fence. Set this if the caches would evict
  /// the results before they are read. Affects only outputs that have the same offset from a vector boundary as the
  /// first output.
  bool stream = false;
};

/// Maximum stack depth that `reduce` supports: enough for trees of up to 2^20 replicas.
inline constexpr int max_stack_depth = 22;

/// Evaluates `fold` for `count` elements. Every pointer must be aligned to its element size. An output may be the same
/// array as an input if their elements have the same size; other overlaps are not allowed. Integers wrap. Reads and
/// writes each element once, except that a few elements at the end are read and written twice. Accesses nothing outside
/// the arrays. Thread-safety: any thread. Does not allocate.
void reduce(const Fold& fold, std::int64_t count);

/// The function that `reduce` calls for folds of one op and dtype.
using ReduceFunction = void (*)(const Fold& fold, std::int64_t count);

/// The kernel of this processor for `op` and `dtype`; `op` must support `dtype`. Prepared calls choose their kernel
/// once, by this function. The kernel does not check that its fold has this op and dtype, at least one input, and as
/// many merges as inputs.
[[nodiscard]] ReduceFunction reduce_function(ReduceOp op, DType dtype);

// The functions from which `reduce_function` chooses. Each function has its own source, compiled for every target, so
// that the sources compile in parallel. Each function returns the kernel for the best target of this processor, or null
// if it does not support `dtype`.
[[nodiscard]] ReduceFunction sum_function(DType dtype);
[[nodiscard]] ReduceFunction integer_mean_function(DType dtype);
[[nodiscard]] ReduceFunction minimum_function(DType dtype);
[[nodiscard]] ReduceFunction maximum_function(DType dtype);
[[nodiscard]] ReduceFunction product_function(DType dtype);
[[nodiscard]] ReduceFunction bits_function(ReduceOp op, DType dtype);

}  // namespace lockstep::detail
