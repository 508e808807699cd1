// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that hold one array each: a header that tells element type and extents, then the elements.

#pragma once

#include "input/byte_reader.hpp"
#include "input/mapped_rows.hpp"

#include <lockstep/input/pipeline.hpp>
#include <lockstep/input/records.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace lockstep::input {

/// How elements lie in a file.
struct ArrayLayout {
  bool is_swapped = false;  ///< in the other byte order than this machine's
  bool is_fortran = false;  ///< the first index changes fastest
};

struct ArrayHeader {
  DType dtype = DType::u8;
  Shape shape;
  ArrayLayout layout;
  std::uint64_t header_bytes = 0;
  std::uint64_t content_bytes = 0;  ///< no more than the stream can have
};

/// Reads a header and no further.
using ParseHeader = ArrayHeader (*)(ByteStream& stream);

/// Reads the header of a .npy file of version 1, 2 or 3.
[[nodiscard]] ArrayHeader parse_npy_header(ByteStream& stream);

/// For a ParseHeader, at the end of the header. Throws Error(data_loss) when the elements are more than the stream can
/// hold, and Error(invalid_argument) for too many axes.
[[nodiscard]] ArrayHeader array_header(const ByteStream& stream, DType dtype, std::span<const std::int64_t> extents,
                                       const ArrayLayout& layout);

/// The elements behind `header` in C order and this machine's byte order. Throws Error(data_loss) when the stream has
/// fewer or more bytes.
[[nodiscard]] Tensor read_content(ByteStream& stream, const ArrayHeader& header);
/// The array of a file, plain or gzip.
[[nodiscard]] Tensor read_array(const std::filesystem::path& path, ParseHeader parse);

/// The rows of an array in memory: of `bytes`, which are what a plain file or a part of one holds and live as long as
/// `owner`. Rows in Fortran order are copied.
[[nodiscard]] RowBlock block_of(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, std::string name,
                                ParseHeader parse);
/// The rows of an array that is a tensor already.
[[nodiscard]] RowBlock block_of(Tensor array, const std::string& name);

/// The rows of all files, mapped where they are plain, as a dataset with random access.
[[nodiscard]] Pipeline array_files(const char* reader, const FileList& files, ParseHeader parse);

}  // namespace lockstep::input
