// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// kernels/rows on tensors, wherever they lie: by the processor in host memory, on a GPU by the kernels there, in order
// with its stream. The bits are the same.

#pragma once

#include "kernels/rows.hpp"

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/values/indexed_slices.hpp>

namespace lockstep::detail {

/// Rows of `target` become `row op (slice / divisor)`, as RowUpdate says. The slices are valid, of the target's dtype
/// and row shape, and none of its memory. They may lie anywhere, and are copied to where the target lies. `divisor` is
/// 1 but for floating-point elements, and for update.
///
/// Cost: indices that lie on a GPU are copied to the host, which waits for what is on that GPU's stream. n of them are
/// sorted there; on a GPU every 232 are one launch (of update, every 144 rows), in which a row's elements are read and
/// written once, a row's slices one after the other.
void update_rows(TensorView target, RowOp op, const IndexedSlices& slices, int divisor);

/// Whether an integer among the elements of `values` is 0. Looks at what lies on a GPU through a copy in host memory.
[[nodiscard]] bool has_integer_zero(ConstTensorView values);

}  // namespace lockstep::detail
