// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sparse updates combine rows of a matrix with slices; each slice has the index of its row. This file defines in which
// order.

#pragma once

#include "kernels/elementwise.hpp"

#include <lockstep/core/dtype.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// One combination: slice `slice` is applied to row `row`.
struct RowStep {
  std::int64_t row = 0;
  std::int64_t slice = 0;
};

/// Returns one step for each slice; slice k belongs to row `indices[k]`. The steps are sorted by row; the steps of one
/// row are in the order of the slices.
[[nodiscard]] std::vector<RowStep> steps_by_row(std::span<const std::int64_t> indices);

/// Sets rows to `row op (slice / divisor)`, step by step. All steps of a row are accumulated in the type of its sums
/// (f32 for f16 and bf16). Then the row is rounded, and every NaN becomes canonical. ElementOp::update copies the slice
/// instead.
struct SparseUpdate {
  ElementOp op = ElementOp::add;
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
