// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// In host memory, to which what lies on a GPU is copied.

#pragma once

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/values/indexed_slices.hpp>

#include <cstdint>

namespace lockstep::detail {

enum class RowOp : std::uint8_t { add, sub, mul, div, min, max, update };

/// Rows of `target` become `row op (slice / divisor)`, in the order of the slices; rows are kept in the type that they
/// are added in (f32 for f16 and bf16) until the last slice that names them. The slices are valid, and of the target's
/// dtype and row shape. `divisor` is 1 but for floating-point elements; bool has only update.
void update_rows(TensorView target, RowOp op, const IndexedSlices& slices, int divisor);

/// Whether an integer among the elements of `values` is 0.
[[nodiscard]] bool has_integer_zero(ConstTensorView values);

}  // namespace lockstep::detail
