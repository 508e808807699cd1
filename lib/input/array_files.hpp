// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files with one array each: a header with element type and extents, followed by the elements.

#pragma once

#include "input/byte_reader.hpp"
#include "input/mapped_rows.hpp"

#include <lockstep/input/pipeline.hpp>
#include <lockstep/input/records.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep::input {

/// The order of bytes and elements in a file.
struct ArrayLayout {
  bool is_swapped = false;  ///< byte order is not this machine's
  bool is_fortran = false;  ///< Fortran order: the first index varies fastest
};

struct ArrayHeader {
  DType dtype = DType::u8;
  Shape shape;
  ArrayLayout layout;
  std::uint64_t header_bytes = 0;
  std::uint64_t content_bytes = 0;  ///< size of the elements; at most the size of the stream
};

/// Reads the header of a stream, and nothing after it.
using ParseHeader = ArrayHeader (*)(ByteStream& stream);

/// Reads the header of a .npy file of version 1, 2 or 3.
[[nodiscard]] ArrayHeader parse_npy_header(ByteStream& stream);

/// Makes the ArrayHeader of a stream whose header has just been read. Throws Error(data_loss) if the elements do not
/// fit in the rest of the stream, and Error(invalid_argument) if there are too many axes.
[[nodiscard]] ArrayHeader array_header(const ByteStream& stream, DType dtype, std::span<const std::int64_t> extents,
                                       const ArrayLayout& layout);

/// Reads the elements after the header, and returns them in C order and this machine's byte order. Throws
/// Error(data_loss) if the stream has fewer or more bytes.
[[nodiscard]] Tensor read_content(ByteStream& stream, const ArrayHeader& header);
/// Reads the array of a file, plain or gzip.
[[nodiscard]] Tensor read_array(const std::string& path, ParseHeader parse);

/// The rows of the array in `bytes`, which is the content of a plain file or of a part of a file. `owner` keeps `bytes`
/// valid. An array in Fortran order is copied.
[[nodiscard]] RowBlock block_of(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, std::string name,
                                ParseHeader parse);
/// The rows of a tensor.
[[nodiscard]] RowBlock block_of(Tensor array, const std::string& name);

/// The rows of all files as a dataset with random access. Plain files are mapped.
[[nodiscard]] Pipeline array_files(const char* reader, const FileList& files, ParseHeader parse);

}  // namespace lockstep::input
