// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/idx.hpp>

#include "base/check.hpp"
#include "input/byte_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {
namespace {

std::optional<DType> dtype_of_code(unsigned code) noexcept {
  switch (code) {
    case 0x08: return DType::u8;
    case 0x09: return DType::i8;
    case 0x0b: return DType::i16;
    case 0x0c: return DType::i32;
    case 0x0d: return DType::f32;
    case 0x0e: return DType::f64;
    default: return std::nullopt;
  }
}

std::uint32_t big_endian(const std::byte* bytes) noexcept {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8U | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

void read_header(ByteReader& reader, std::span<std::byte> bytes, const char* part) {
  const std::size_t count = reader.read(bytes);
  if (count != bytes.size()) {
    detail::throw_error(Code::data_loss, "{} is truncated: expected {} bytes of {}, found {}", reader.name(),
                        bytes.size(), part, count);
  }
}

struct Header {
  DType dtype = DType::u8;
  Shape shape;
  std::uint64_t content_bytes = 0;
};

/// The bytes that elements of these extents need, or nothing if that is more than `limit`. An extent of 0 is not
/// allowed to hide others that no shape could have.
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

Header parse_header(ByteReader& reader) {
  std::array<std::byte, 4> magic{};
  read_header(reader, magic, "magic number");
  const std::optional<DType> dtype = dtype_of_code(std::to_integer<unsigned>(magic[2]));
  const auto axes = std::to_integer<unsigned>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || !dtype || axes > Shape::max_rank) {
    detail::throw_error(
        Code::invalid_argument,
        "{} is not an IDX file: expected a magic number 0x0000TTDD with an element type TT of 08, 09, 0b, 0c, 0d "
        "or 0e and at most {} axes DD, found 0x{:08x}",
        reader.name(), Shape::max_rank, big_endian(magic.data()));
  }
  std::array<std::byte, 4 * static_cast<std::size_t>(Shape::max_rank)> bytes{};
  read_header(reader, std::span(bytes).first(std::size_t{4} * axes), "extents");
  std::vector<std::int64_t> extents;
  extents.reserve(axes);
  for (unsigned axis = 0; axis < axes; ++axis) extents.push_back(big_endian(bytes.data() + std::size_t{4} * axis));

  const std::uint64_t limit = reader.largest_content() - std::min(reader.largest_content(), reader.position());
  const std::optional<std::uint64_t> content = bytes_of(extents, size_of(*dtype), limit);
  if (!content) {
    detail::throw_error(
        Code::data_loss,
        "{} is damaged or truncated: {} elements of shape {} are more than the {} bytes that a file of {} bytes can "
        "hold behind its header",
        reader.name(), to_string(*dtype), extents_text(extents), limit, reader.file_bytes());
  }
  return {*dtype, Shape(std::span<const std::int64_t>(extents)), *content};
}

[[noreturn]] void throw_length(const ByteReader& reader, const Header& header, const char* what, std::uint64_t found,
                               const char* more) {
  detail::throw_error(Code::data_loss, "{} is {}: {} elements of shape {} are {} bytes, found {}{}", reader.name(),
                      what, to_string(header.dtype), to_string(header.shape), header.content_bytes, found, more);
}

/// Reads to the end without keeping anything; what is missing or left over is found before memory is taken for it.
void check_length(const std::filesystem::path& path, const Header& header, std::uint64_t header_bytes) {
  ByteReader reader(path);
  std::vector<std::byte> scratch(64 * 1024);
  while (reader.position() <= header_bytes + header.content_bytes && reader.read(scratch) == scratch.size()) {}
  const std::uint64_t found = reader.position() - header_bytes;
  if (found < header.content_bytes) throw_length(reader, header, "truncated", found, "");
  if (found > header.content_bytes)
    throw_length(reader, header, "damaged", header.content_bytes, " and more bytes after them");
}

template <class Unit>
void to_host_order(std::byte* bytes, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) std::reverse(bytes + i * sizeof(Unit), bytes + (i + 1) * sizeof(Unit));
}

void to_host_order(Tensor& tensor) noexcept {
  if constexpr (std::endian::native == std::endian::big) return;
  auto* const bytes = static_cast<std::byte*>(tensor.data());
  const auto count = static_cast<std::size_t>(tensor.element_count());
  switch (size_of(tensor.dtype())) {
    case 2: to_host_order<std::uint16_t>(bytes, count); break;
    case 4: to_host_order<std::uint32_t>(bytes, count); break;
    case 8: to_host_order<std::uint64_t>(bytes, count); break;
    default: break;
  }
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path) {
  ByteReader reader(path);
  const Header header = parse_header(reader);
  const std::uint64_t header_bytes = reader.position();
  const std::uint64_t expected = header_bytes + header.content_bytes;
  const bool length_is_certain = reader.is_gzip() ? reader.trailer_length() == static_cast<std::uint32_t>(expected)
                                                  : reader.file_bytes() == expected;
  if (!length_is_certain) check_length(path, header, header_bytes);

  Tensor tensor(header.dtype, header.shape);
  const std::size_t found = reader.read({static_cast<std::byte*>(tensor.data()), tensor.byte_count()});
  if (found != tensor.byte_count()) throw_length(reader, header, "truncated", found, "");
  std::byte extra{};
  if (reader.read(std::span(&extra, 1)) != 0) {
    throw_length(reader, header, "damaged", header.content_bytes, " and more bytes after them");
  }
  to_host_order(tensor);
  return tensor;
}

}  // namespace lockstep::input
