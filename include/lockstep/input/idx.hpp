// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// IDX files, the format of MNIST: a magic number with element type and number of axes, the extents, and the elements,
// all big-endian. Element types u8, i8, i16, i32, f32 and f64; at most Shape::max_rank axes.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/records.hpp>

namespace lockstep {
namespace input {

/// Reads a whole IDX file, plain or gzip (detected by content, not by name), into one tensor in host byte order. Local.
/// Throws Error(invalid_argument) if the file cannot be opened or is not an IDX file, and Error(data_loss) if it is
/// damaged: truncated, too long, with extents too large for its size, or gzip data with a wrong checksum. The text
/// gives the file, the expected and the found values.
/// Memory: the tensor and 64 KiB; the size in the header is checked before memory is allocated.
[[nodiscard]] LOCKSTEP_API Tensor read_idx(const std::string& path);

[[nodiscard]] LOCKSTEP_API Pipeline idx_rows(const FileList& files);

}  // namespace input

/// The rows of IDX files, file after file, with random access: `zip(idx_dataset({images}), idx_dataset({labels}))`.
/// Local. All files are opened at once. Plain files are mapped, and only the rows that are read are accessed; do not
/// shorten them during reading (SIGBUS). Gzip files are decompressed into memory.
/// Throws as read_idx, and Error(invalid_argument) for an empty list, a scalar, and files whose rows differ in dtype or
/// shape.
[[nodiscard]] inline Dataset<Tensor> idx_dataset(const FileList& files) {
  return Dataset<Tensor>(input::idx_rows(files));
}

}  // namespace lockstep
