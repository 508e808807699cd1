// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// NumPy's file formats. A .npy file has one array. A .npz file is a zip archive of named arrays, which are stored or
// deflated. Supported element types are bool, integers of 8 to 64 bits, f16, f32 and f64, in either byte order; arrays
// have at most Shape::max_rank axes.

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
/// Throws Error(invalid_argument) if the file cannot be opened, is not a .npy file, or has an unsupported element type.
/// Throws Error(data_loss) if the file is damaged: it is truncated or too long, or its shape is too large for its size.
/// The error text gives the file and the values found.
/// Memory: the size of the tensor; for Fortran order, twice this size. The size is checked before memory is allocated.
[[nodiscard]] LOCKSTEP_API Tensor read_npy(const std::string& path);

/// Reads all arrays of a .npz file. The keys are the names of the arrays, without ".npy". Local.
/// Throws like read_npy. Also throws Error(data_loss) if the archive is damaged or the checksum of an array is wrong,
/// and Error(invalid_argument) if a member is encrypted, or is neither stored nor deflated.
[[nodiscard]] LOCKSTEP_API std::map<std::string, Tensor> read_npz(const std::string& path);

[[nodiscard]] LOCKSTEP_API Pipeline npy_rows(const FileList& files);
[[nodiscard]] LOCKSTEP_API Pipeline npz_rows(const FileList& files, std::span<const std::string> names,
                                             std::size_t leaves);

}  // namespace input

/// The rows of .npy files, file after file, with random access. Local. This call opens all files. Plain files are
/// mapped, and only the rows that are read are accessed; do not shorten a file during reading (SIGBUS). Gzip files, and
/// arrays in Fortran order, are read into memory.
/// Throws like read_npy. Also throws Error(invalid_argument) if `files` is empty, if a file has a scalar, or if the
/// rows of two files differ in dtype or shape.
[[nodiscard]] inline Dataset<Tensor> npy_dataset(const FileList& files) {
  return Dataset<Tensor>(input::npy_rows(files));
}

/// The rows of arrays in .npz files, file after file, with random access. `names` has the name of one array for each
/// tensor of T. Example: `npz_dataset<std::tuple<Tensor, Tensor>>({path}, {"x", "y"})`. Local. Stored arrays are
/// mapped; this call reads each of them once to verify its checksum. Deflated arrays are decompressed into memory.
/// Throws like read_npz and npy_dataset. Also throws Error(invalid_argument) if a file has no array of a given name
/// (the error text lists the arrays of the file), if the number of names does not match T, or if the arrays of one file
/// differ in length.
template <ElementTree T>
  requires(input::leaf_count<T>::value != input::by_keys)
[[nodiscard]] Dataset<T> npz_dataset(const FileList& files, const std::vector<std::string>& names) {
  return Dataset<T>(input::npz_rows(files, names, input::leaf_count<T>::value));
}

}  // namespace lockstep
