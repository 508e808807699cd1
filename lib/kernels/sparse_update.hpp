// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sparse updates: rows of a matrix are combined with slices that name them by index. Defines how two elements are
// combined, and in which order.

#pragma once

#include "kernels/arithmetic.hpp"

#include <lockstep/core/dtype.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace lockstep::detail {

enum class RowOp : std::uint8_t { add, sub, mul, div, min, max, update };

/// Computes `row op slice`. Integers wrap and must not be divided by 0; minimum and maximum are those of reductions.
template <RowOp op, class R>
constexpr R step_row(R row, R slice) noexcept {
  if constexpr (op == RowOp::add) {
    return combine<ReduceOp::sum>(row, slice);
  } else if constexpr (op == RowOp::mul) {
    return combine<ReduceOp::prod>(row, slice);
  } else if constexpr (op == RowOp::min) {
    return minimum(row, slice);
  } else if constexpr (op == RowOp::max) {
    return maximum(row, slice);
  } else if constexpr (std::is_floating_point_v<R>) {
    return op == RowOp::sub ? row - slice : row / slice;
  } else {
    using Wide = std::common_type_t<std::make_unsigned_t<R>, unsigned>;
    if constexpr (op == RowOp::sub) return static_cast<R>(static_cast<Wide>(row) - static_cast<Wide>(slice));
    if constexpr (std::is_signed_v<R>) {
      if (slice == R{-1}) return static_cast<R>(Wide{0} - static_cast<Wide>(row));  // the lowest value has no negative
    }
    return static_cast<R>(row / slice);
  }
}

/// One combination: slice `slice` is applied to row `row`.
struct RowStep {
  std::int64_t row = 0;
  std::int64_t slice = 0;
};

/// The steps of slices of which slice k is for row `indices[k]`: sorted by row, and for each row in the order of the
/// slices.
[[nodiscard]] std::vector<RowStep> steps_by_row(std::span<const std::int64_t> indices);

/// Sets rows to `row op (slice / divisor)`, step by step. A row is accumulated in the type of its sums (f32 for f16 and
/// bf16) from its first step to its last, and then rounded; a NaN becomes the canonical one. `update` copies the slice.
struct SparseUpdate {
  RowOp op = RowOp::add;
  DType dtype = DType::f32;        ///< bool only for update
  void* target = nullptr;          ///< matrix with rows of `width` elements
  const void* slices = nullptr;    ///< rows of the same width; must not overlap the target
  std::int64_t width = 0;          ///< number of elements of a row
  std::span<const RowStep> steps;  ///< sorted by row
  int divisor = 1;                 ///< must be 1 for integers, and for update
};

/// Applies `update`. Thread-safety: any thread.
void apply_sparse_update(const SparseUpdate& update);

}  // namespace lockstep::detail
