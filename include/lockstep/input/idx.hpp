// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// IDX files, the format of MNIST. A file has a magic number that gives the element type and the number of axes, then
// the extents, then the elements, all big-endian. Element types are u8, i8, i16, i32, f32 and f64. An array has up to
// Shape::max_rank axes.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/records.hpp>

namespace lockstep {
namespace input {

/// Reads a whole IDX file, plain or gzip (detected by content, not by name), into one tensor in host byte order. Local.
/// Throws Error(invalid_argument) if the file cannot be opened or is not an IDX file. Throws Error(data_loss) if the
/// file is damaged: it is truncated or too long, its extents are too large for its size, or its gzip checksum is wrong.
/// The error text gives the file, the expected value and the value found.
/// Memory: the tensor and 64 KiB; the size in the header is checked before memory is allocated.
[[nodiscard]] LOCKSTEP_API Tensor read_idx(const std::string& path);

[[nodiscard]] LOCKSTEP_API Pipeline idx_rows(const FileList& files);

}  // namespace input

/// The rows of IDX files, file after file, with random access. Example: `zip(idx_dataset({images}),
/// idx_dataset({labels}))`. Local. This call opens all files. Plain files are mapped, and only the rows that are read
/// are accessed; do not shorten a file during reading (SIGBUS). Gzip files are decompressed into memory.
/// Throws like read_idx. Also throws Error(invalid_argument) if `files` is empty, if a file has a scalar, or if the
/// rows of two files differ in dtype or shape.
[[nodiscard]] inline Dataset<Tensor> idx_dataset(const FileList& files) {
  return Dataset<Tensor>(input::idx_rows(files));
}

}  // namespace lockstep
