// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/idx.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "input/array_files.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

void read_header(ByteStream& stream, std::span<std::byte> bytes, const char* part) {
  const std::size_t count = stream.read(bytes);
  if (count != bytes.size()) {
    detail::throw_error(Code::data_loss, "{} is truncated: expected {} for the {}, found {}", stream.name(),
                        detail::counted(bytes.size(), "byte"), part, count);
  }
}

ArrayHeader parse_header(ByteStream& stream) {
  std::array<std::byte, 4> magic{};
  read_header(stream, magic, "magic number");
  const std::optional<DType> dtype = dtype_of_code(std::to_integer<unsigned>(magic[2]));
  const auto axes = std::to_integer<unsigned>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || !dtype || axes > Shape::max_rank) {
    detail::throw_error(
        Code::invalid_argument,
        "{} is not an IDX file: expected a magic number 0x0000TTDD with an element type TT of 08, 09, 0b, 0c, 0d "
        "or 0e and at most {} axes DD, found 0x{:08x}",
        stream.name(), Shape::max_rank, big_endian(magic.data()));
  }
  std::array<std::byte, 4 * static_cast<std::size_t>(Shape::max_rank)> bytes{};
  read_header(stream, std::span(bytes).first(std::size_t{4} * axes), "extents");
  std::vector<std::int64_t> extents;
  extents.reserve(axes);
  for (unsigned axis = 0; axis < axes; ++axis) extents.push_back(big_endian(bytes.data() + std::size_t{4} * axis));

  return array_header(stream, *dtype, extents, {.is_swapped = std::endian::native == std::endian::little});
}

}  // namespace

Tensor read_idx(const std::string& path) { return read_array(path, parse_header); }

Pipeline idx_rows(const FileList& files) { return array_files("idx_dataset", files, parse_header); }

}  // namespace lockstep::input
