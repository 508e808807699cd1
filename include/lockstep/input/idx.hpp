// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// IDX files, the format of MNIST and its relatives: a magic number that names element type and number of axes, the
// extents, the elements, all big-endian. Element types u8, i8, i16, i32, f32 and f64; at most Shape::max_rank axes.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/records.hpp>

#include <filesystem>

namespace lockstep {
namespace input {

/// Reads a whole IDX file, plain or gzip (told apart by content, not by name), into one tensor in host byte order.
/// Local. Throws Error(invalid_argument) when the file cannot be opened or is no IDX file, Error(data_loss) when it is
/// damaged: truncated, with bytes left over, with extents that its size cannot hold, or gzip data that fails its
/// checksum. The text names the file, what was expected and what was found. Memory: the tensor and 64 KiB; what a
/// damaged header claims is checked before it is allocated.
[[nodiscard]] LOCKSTEP_API Tensor read_idx(const std::filesystem::path& path);

[[nodiscard]] LOCKSTEP_API Pipeline idx_rows(const FileList& files);

}  // namespace input

/// The rows of IDX files, file after file, with random access: `zip(idx_dataset({images}), idx_dataset({labels}))`.
/// Local. All files are opened at once. Plain ones are mapped, and only the rows that are read are touched; do not
/// shorten them meanwhile (SIGBUS). Packed ones are unpacked into memory. Throws what read_idx throws, and
/// Error(invalid_argument) for an empty list, a scalar, and files whose rows differ in dtype or shape.
[[nodiscard]] inline Dataset<Tensor> idx_dataset(const FileList& files) {
  return Dataset<Tensor>(input::idx_rows(files));
}

}  // namespace lockstep
