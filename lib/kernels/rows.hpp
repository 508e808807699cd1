// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Single rows of a matrix, written by slices that name them: what a step does to two elements, and in which order.

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

/// `row op slice`. Integers wrap, and are not divided by 0; minima and maxima are those of reductions.
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
      if (slice == R{-1}) return static_cast<R>(Wide{0} - static_cast<Wide>(row));  // the least has no opposite
    }
    return static_cast<R>(row / slice);
  }
}

/// Slice `slice` is for row `row`.
struct RowStep {
  std::int64_t row = 0;
  std::int64_t slice = 0;
};

/// The steps of slices of which number k is for row `indices[k]`: by row, and for a row in the order of the slices.
[[nodiscard]] std::vector<RowStep> steps_by_row(std::span<const std::int64_t> indices);

/// Rows become `row op (slice / divisor)`, step by step. They are kept in the type that they are added in (f32 for f16
/// and bf16) from the first step of a row to its last, and rounded then, a NaN to the canonical one. `update` copies.
struct RowUpdate {
  RowOp op = RowOp::add;
  DType dtype = DType::f32;        ///< bool only for update
  void* target = nullptr;          ///< rows of `width` elements
  const void* slices = nullptr;    ///< rows like those; no memory of the target's
  std::int64_t width = 0;          ///< elements of a row
  std::span<const RowStep> steps;  ///< by row
  int divisor = 1;                 ///< 1 unless elements are floating-point numbers; of update always
};

/// Thread-safety: any thread.
void update_rows(const RowUpdate& update);

}  // namespace lockstep::detail
