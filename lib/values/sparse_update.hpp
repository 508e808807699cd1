// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sparse updates of tensors on any device: in host memory by the processor, on a GPU by its kernels, in order with its
// stream. The bits are the same.

#pragma once

#include "kernels/sparse_update.hpp"

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/values/indexed_slices.hpp>

namespace lockstep::detail {

/// Sets rows of `target` to `row op (slice / divisor)`, see SparseUpdate. The slices must be valid, with the target's
/// dtype and row shape, and must not overlap the target. They may be on any device, and are copied to the target's.
/// `divisor` must be 1 for integers, and for update.
///
/// Cost: indices on a GPU are copied to the host, which waits for that GPU's stream. The n indices are sorted there. On
/// a GPU there is one launch per 232 indices (for update, per 144 rows), in which the elements of a row are read and
/// written once and its slices are applied one after the other.
void apply_sparse_update(TensorView target, RowOp op, const IndexedSlices& slices, int divisor);

/// Whether any element of `values`, which are integers, is 0. Elements on a GPU are read through a copy in host memory.
[[nodiscard]] bool has_integer_zero(ConstTensorView values);

}  // namespace lockstep::detail
