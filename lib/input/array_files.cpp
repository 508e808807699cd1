// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/array_files.hpp"

#include "base/check.hpp"
#include "input/files_node.hpp"
#include "input/mapped_file.hpp"
#include "input/rows.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::input {
namespace {

/// The size in bytes of an array with these extents; nullopt if the size is larger than `limit`. If an extent is 0, the
/// size is 0, but the product of the other extents and `element_bytes` must be at most 2^63 - 1.
std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> extents, std::uint64_t element_bytes,
                                      std::uint64_t limit) {
  const bool is_empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
  if (is_empty) limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = element_bytes;
  for (const std::int64_t extent : extents) {
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1));
    if (bytes > limit / factor) return std::nullopt;
    bytes *= factor;
  }
  if (bytes > limit) return std::nullopt;
  return is_empty ? 0 : bytes;
}

std::string extents_text(std::span<const std::int64_t> extents) {
  std::string text = "[";
  for (const std::int64_t extent : extents)
    fmt::format_to(std::back_inserter(text), "{}{}", text.size() > 1 ? ", " : "", extent);
  return text + "]";
}

[[noreturn]] void throw_length(const ByteStream& stream, const ArrayHeader& header, const char* what,
                               std::uint64_t found, const char* more) {
  detail::throw_error(Code::data_loss, "{} is {}: its header gives {} {}, which are {} bytes, found {}{}",
                      stream.name(), what, to_string(header.dtype), to_string(header.shape), header.content_bytes,
                      found, more);
}

/// Reads the file to its end without storing the content, so that a wrong length is found before memory is allocated.
void check_length(const std::string& path, const ArrayHeader& header) {
  ByteReader reader(path);
  std::vector<std::byte> scratch(64 * 1024);
  while (reader.position() <= header.header_bytes + header.content_bytes && reader.read(scratch) == scratch.size()) {}
  const std::uint64_t found = reader.position() - header.header_bytes;
  if (found < header.content_bytes) throw_length(reader, header, "truncated", found, "");
  if (found > header.content_bytes) throw_length(reader, header, "damaged", header.content_bytes, " and more");
}

/// Copies an array in Fortran order to C order.
Tensor reordered(const Tensor& fortran) {
  Tensor result = Tensor::uninitialized(fortran.dtype(), fortran.shape());
  const auto extents = fortran.shape().extents();
  const std::size_t bytes = size_of(fortran.dtype());
  const auto* const from = static_cast<const std::byte*>(fortran.data());
  auto* to = static_cast<std::byte*>(result.data());
  std::array<std::int64_t, Shape::max_rank> index{};
  std::array<std::size_t, Shape::max_rank> stride{bytes};
  for (std::size_t axis = 1; axis < extents.size(); ++axis) {
    stride[axis] = stride[axis - 1] * static_cast<std::size_t>(extents[axis - 1]);
  }
  std::size_t offset = 0;
  for (std::int64_t i = 0; i < fortran.element_count(); ++i, to += bytes) {
    std::memcpy(to, from + offset, bytes);
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      offset += stride[axis];
      if (++index[axis] < extents[axis]) break;
      offset -= stride[axis] * static_cast<std::size_t>(extents[axis]);
      index[axis] = 0;
    }
  }
  return result;
}

}  // namespace

ArrayHeader array_header(const ByteStream& stream, DType dtype, std::span<const std::int64_t> extents,
                         const ArrayLayout& layout) {
  if (extents.size() > static_cast<std::size_t>(Shape::max_rank)) {
    detail::throw_error(Code::invalid_argument, "{} has an array of {} axes; a tensor has at most {}", stream.name(),
                        extents.size(), Shape::max_rank);
  }
  const std::uint64_t limit = stream.largest_content() - std::min(stream.largest_content(), stream.position());
  const std::optional<std::uint64_t> content = bytes_of(extents, size_of(dtype), limit);
  if (!content) {
    detail::throw_error(
        Code::data_loss,
        "{} is damaged or truncated: {} elements of shape {} do not fit in the {} bytes after the header of {} bytes",
        stream.name(), to_string(dtype), extents_text(extents), limit, stream.position());
  }
  return {dtype, Shape(extents), layout, stream.position(), *content};
}

Tensor read_content(ByteStream& stream, const ArrayHeader& header) {
  Tensor tensor = Tensor::uninitialized(header.dtype, header.shape);
  const std::span<std::byte> bytes(static_cast<std::byte*>(tensor.data()), tensor.byte_count());
  const std::size_t found = stream.read(bytes);
  if (found != bytes.size()) throw_length(stream, header, "truncated", found, "");
  std::byte extra{};
  if (stream.read(std::span(&extra, 1)) != 0) {
    throw_length(stream, header, "damaged", header.content_bytes, " and more");
  }
  to_host(bytes, header.dtype, header.layout.is_swapped);
  return header.layout.is_fortran && header.shape.rank() > 1 ? reordered(tensor) : tensor;
}

Tensor read_array(const std::string& path, ParseHeader parse) {
  ByteReader reader(path);
  const ArrayHeader header = parse(reader);
  const std::uint64_t expected = header.header_bytes + header.content_bytes;
  const bool length_is_certain = reader.is_gzip() ? reader.trailer_length() == static_cast<std::uint32_t>(expected)
                                                  : reader.file_bytes() == expected;
  if (!length_is_certain) check_length(path, header);
  return read_content(reader, header);
}

RowBlock block_of(Tensor array, const std::string& name) {
  if (array.shape().rank() == 0) {
    detail::throw_error(Code::invalid_argument,
                        "{} has a scalar, which has no rows; the array must have at least one axis", name);
  }
  const auto owner = std::make_shared<const Tensor>(std::move(array));
  return {.owner = owner,
          .first = static_cast<const std::byte*>(owner->data()),
          .rows = owner->shape()[0],
          .kind = {owner->dtype(), without_rows(owner->shape()), false}};
}

RowBlock block_of(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, std::string name,
                  ParseHeader parse) {
  SpanReader reader(bytes, std::move(name));
  const ArrayHeader header = parse(reader);
  if (header.shape.rank() == 0 || (header.layout.is_fortran && header.shape.rank() > 1)) {
    return block_of(read_content(reader, header), reader.name());
  }
  const std::uint64_t found = bytes.size() - header.header_bytes;
  if (found < header.content_bytes) throw_length(reader, header, "truncated", found, "");
  if (found > header.content_bytes) throw_length(reader, header, "damaged", header.content_bytes, " and more");
  return {.owner = std::move(owner),
          .first = bytes.data() + header.header_bytes,
          .rows = header.shape[0],
          .kind = {header.dtype, without_rows(header.shape), header.layout.is_swapped}};
}

Pipeline array_files(const char* reader, const FileList& files, ParseHeader parse) {
  check_files(reader, files);
  std::vector<RowBlock> blocks;
  for (const std::string& path : files) {
    auto file = std::make_shared<const MappedFile>(path);
    const std::span<const std::byte> bytes = file->bytes();
    if (is_gzip(bytes)) {
      blocks.push_back(block_of(read_array(path, parse), path));
    } else {
      blocks.push_back(block_of(std::move(file), bytes, path, parse));
    }
  }
  return pipeline_of(mapped_rows(reader, files, std::move(blocks)));
}

}  // namespace lockstep::input
