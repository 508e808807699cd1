// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NumPy's files: .npy, one array, and .npz, a zip archive of named arrays, stored or deflated. Element types bool, 8 to
// 64 bit integers, f16, f32 and f64 of either byte order; at most Shape::max_rank axes.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/records.hpp>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lockstep {
namespace input {

/// Reads a .npy file, plain or gzip, into one tensor in C order and host byte order. Local.
/// Throws Error(invalid_argument) if the file cannot be opened, is not a .npy file, or has elements of another type;
/// Error(data_loss) if it is damaged: truncated, too long, or with a shape too large for its size. The text gives the
/// file and the found values.
/// Memory: the tensor, and twice that for Fortran order; the size in the header is checked before memory is allocated.
[[nodiscard]] LOCKSTEP_API Tensor read_npy(const std::string& path);

/// All arrays of a .npz file by their names, without ".npy". Local.
/// Throws as read_npy; also Error(data_loss) for a damaged archive and for arrays with a wrong checksum, and
/// Error(invalid_argument) for encrypted members and for compression methods other than stored and deflated.
[[nodiscard]] LOCKSTEP_API std::map<std::string, Tensor> read_npz(const std::string& path);

[[nodiscard]] LOCKSTEP_API Pipeline npy_rows(const FileList& files);
[[nodiscard]] LOCKSTEP_API Pipeline npz_rows(const FileList& files, std::span<const std::string> names,
                                             std::size_t leaves);

}  // namespace input

/// The rows of .npy files, file after file, with random access. Local. All files are opened at once. Plain files are
/// mapped, and only the rows that are read are accessed; do not shorten them during reading (SIGBUS). Gzip files, and
/// arrays in Fortran order, are read into memory.
/// Throws as read_npy, and Error(invalid_argument) for an empty list, a scalar, and files whose rows differ in dtype or
/// shape.
[[nodiscard]] inline Dataset<Tensor> npy_dataset(const FileList& files) {
  return Dataset<Tensor>(input::npy_rows(files));
}

/// The rows of the arrays `names` (one for each tensor of T) of .npz files, file after file, with random access:
/// `npz_dataset<std::tuple<Tensor, Tensor>>({path}, {"x", "y"})`. Local. Stored arrays are mapped, after one pass over
/// them to verify their checksum; deflated arrays are decompressed into memory.
/// Throws as read_npz and npy_dataset, and Error(invalid_argument) for a name that is not in a file (the text lists the
/// names that are), if the number of names does not match T, and for arrays of different length in one file.
template <ElementTree T>
[[nodiscard]] Dataset<T> npz_dataset(const FileList& files, const std::vector<std::string>& names) {
  return Dataset<T>(input::npz_rows(files, names, input::leaf_count<T>::value));
}

}  // namespace lockstep
