// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// IDX files, the format of MNIST and its relatives: a magic number that names element type and number of axes, the
// extents, the elements, all big-endian. Element types u8, i8, i16, i32, f32 and f64; at most Shape::max_rank axes.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>

#include <filesystem>

namespace lockstep::input {

/// Reads a whole IDX file, plain or gzip (told apart by content, not by name), into one tensor in host byte order.
/// Local. Throws Error(invalid_argument) when the file cannot be opened or is no IDX file, Error(data_loss) when it is
/// damaged: truncated, with bytes left over, with extents that its size cannot hold, or gzip data that fails its
/// checksum. The text names the file, what was expected and what was found. Memory: the tensor and 64 KiB; what a
/// damaged header claims is checked before it is allocated.
[[nodiscard]] LOCKSTEP_API Tensor read_idx(const std::filesystem::path& path);

}  // namespace lockstep::input
