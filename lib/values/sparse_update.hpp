// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sparse updates of tensors on any device. The processor updates tensors in host memory; kernels update tensors on a
// GPU, in the order of the replica's stream. The results have the same bits.

#pragma once

#include "kernels/sparse_update.hpp"

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/values/indexed_slices.hpp>

namespace lockstep::detail {

/// Sets rows of `target` to `row op (slice / divisor)`, see SparseUpdate. The slices must be valid, with the target's
/// dtype and row shape, and must not overlap the target. The slices may be on any device, and are copied to the device
/// of the target. `divisor` must be 1 for integers, and for ElementOp::update.
///
/// Cost: the n indices are sorted on the host. Indices on a GPU are copied to the host; the copy waits for that GPU's
/// stream. If the target is on a GPU, there is one launch per 232 indices (for ElementOp::update, per 144 rows). A
/// launch reads and writes each row once, and applies the slices of a row one after the other.
void apply_sparse_update(TensorView target, ElementOp op, const IndexedSlices& slices, int divisor);

}  // namespace lockstep::detail
