// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sparse updates combine rows of a matrix with slices; each slice has the index of its row. This file defines how two
// elements are combined, and in which order.

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

/// Computes `row op slice`. Integers wrap and must not be divided by 0. Minimum and maximum are the same as in
/// reductions.
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
      if (slice == R{-1}) return static_cast<R>(Wide{0} - static_cast<Wide>(row));  // lowest value / -1 overflows
    }
    return static_cast<R>(row / slice);
  }
}

/// One combination: slice `slice` is applied to row `row`.
struct RowStep {
  std::int64_t row = 0;
  std::int64_t slice = 0;
};

/// Returns one step for each slice; slice k belongs to row `indices[k]`. The steps are sorted by row; the steps of one
/// row are in the order of the slices.
[[nodiscard]] std::vector<RowStep> steps_by_row(std::span<const std::int64_t> indices);

/// Sets rows to `row op (slice / divisor)`, step by step. All steps of a row are accumulated in the type of its sums
/// (f32 for f16 and bf16). Then the row is rounded, and every NaN becomes canonical. RowOp::update copies the slice
/// instead.
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
