// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Values that are sparse by rows, such as the gradient of an embedding table of which a step has read a few rows.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>

namespace lockstep {

/// Some rows of a tensor with `rows` rows, as tf.IndexedSlices: row `indices[k]` is `values[k]`; a row with several
/// indices is the sum of their slices, a row without an index is zero. Both tensors are on one device. Copies share the
/// memory of the tensors.
struct IndexedSlices {
  Tensor values;          ///< [n, ...]: n rows
  Tensor indices;         ///< i64 [n], each at least 0 and less than `rows`
  std::int64_t rows = 0;  ///< number of rows of the whole tensor

  /// The shape of the whole tensor: [rows, ...]. Local.
  [[nodiscard]] LOCKSTEP_API Shape dense_shape() const;
  /// Throws Error(invalid_argument), whose text begins with `call`, unless all of the above holds. Local. Cost: indices
  /// on a GPU are copied to the host.
  LOCKSTEP_API void validate(const char* call) const;
};

/// The whole tensor. Slices of the same row are added in the order of `indices`, in the accumulation type
/// (f32 for f16 and bf16, rounded once; integers wrap; a NaN is the canonical one). The sum and the result are on the
/// device of the values; a GPU gives the same bits as the host. Local. Throws as IndexedSlices::validate. Cost: indices
/// on a GPU are copied to the host, and sorted there if the values are on a GPU.
[[nodiscard]] LOCKSTEP_API Tensor to_dense(const IndexedSlices& slices);

}  // namespace lockstep
