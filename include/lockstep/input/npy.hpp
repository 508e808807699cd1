// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays that NumPy has saved: .npy, one array, and .npz, a zip archive of them by name, stored or deflated. Element
// types bool, 8 to 64 bit integers, f16, f32 and f64 of either byte order; at most Shape::max_rank axes.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/records.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lockstep {
namespace input {

/// Reads a .npy file, plain or gzip, into one tensor in C order and host byte order. Local. Throws
/// Error(invalid_argument) when the file cannot be opened, is no .npy file, or holds elements of another type;
/// Error(data_loss) when it is damaged: truncated, with bytes left over, or with a shape that its size cannot hold. The
/// text names the file and what was found. Memory: the tensor, and twice that for Fortran order; what a damaged header
/// claims is checked before it is allocated.
[[nodiscard]] LOCKSTEP_API Tensor read_npy(const std::filesystem::path& path);

/// All arrays of a .npz file by their names, without ".npy". Local. Throws as read_npy, Error(data_loss) also for a
/// damaged archive and for arrays that fail their checksum, and Error(invalid_argument) for encrypted members and for
/// packings that NumPy does not use.
[[nodiscard]] LOCKSTEP_API std::map<std::string, Tensor> read_npz(const std::filesystem::path& path);

[[nodiscard]] LOCKSTEP_API Pipeline npy_rows(const FileList& files);
[[nodiscard]] LOCKSTEP_API Pipeline npz_rows(const FileList& files, std::span<const std::string> names,
                                             std::size_t leaves);

}  // namespace input

/// The rows of .npy files, file after file, with random access. Local. All files are opened at once. Plain ones are
/// mapped, and only the rows that are read are touched; do not shorten them meanwhile (SIGBUS). Packed ones, and
/// arrays in Fortran order, are read into memory. Throws what read_npy throws, and Error(invalid_argument) for an empty
/// list, a scalar, and files whose rows differ in dtype or shape.
[[nodiscard]] inline Dataset<Tensor> npy_dataset(const FileList& files) {
  return Dataset<Tensor>(input::npy_rows(files));
}

/// Element i consists of row i of each of the arrays `names`, one for each tensor of T, of .npz files, file after file,
/// with random access: `npz_dataset<std::tuple<Tensor, Tensor>>({path}, {"x", "y"})`. Local. Stored arrays are mapped
/// after one look at their checksum, deflated ones are unpacked into memory. Throws what read_npz throws, and
/// Error(invalid_argument) for a name that is missing (the text lists those that are there), another number of names
/// than T has tensors, arrays of different length in one file, and as npy_dataset.
template <ElementTree T>
[[nodiscard]] Dataset<T> npz_dataset(const FileList& files, const std::vector<std::string>& names) {
  return Dataset<T>(input::npz_rows(files, names, input::leaf_count<T>::value));
}

}  // namespace lockstep
