// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Values that are sparse by rows, such as the gradient of an embedding table if a step has read only a few rows.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>

namespace lockstep {

/// Some rows of a tensor with `rows` rows, as in tf.IndexedSlices. Slice `values[k]` belongs to row `indices[k]`. A row
/// whose index occurs several times is the sum of its slices; a row whose index does not occur is zero. `values` and
/// `indices` are on one device. Copies share the memory of the tensors.
struct IndexedSlices {
  Tensor values;          ///< [n, ...]: n rows
  Tensor indices;         ///< i64 [n], each at least 0 and less than `rows`
  std::int64_t rows = 0;  ///< number of rows of the whole tensor

  /// The shape of the whole tensor: [rows, ...]. Local.
  [[nodiscard]] LOCKSTEP_API Shape dense_shape() const;
  /// Throws Error(invalid_argument), whose text begins with `call`, unless `indices` are i64 with one axis, each index
  /// is in range, and `values` has one row for each index. Local. Cost: indices on a GPU are copied to the host.
  LOCKSTEP_API void validate(const char* call) const;
};

/// Returns the whole tensor. Slices of one row are added in the order of `indices`: f16 and bf16 are added in f32 and
/// rounded once, integers wrap, and a NaN result is the canonical NaN. The result is on the device of the values, and
/// is computed there; a GPU gives the same bits as the host. Local. Throws as IndexedSlices::validate, and
/// Error(invalid_argument) for bool. Cost: indices on a GPU are copied to the host; if the values are on a GPU, the
/// indices are sorted on the host.
[[nodiscard]] LOCKSTEP_API Tensor to_dense(const IndexedSlices& slices);

}  // namespace lockstep
