// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sixteen bytes at a time through sixteen tables ("slicing", Kounavis and Berry 2005).

#include "input/crc32c.hpp"

#include <array>

namespace lockstep::input {
namespace {

constexpr std::size_t slices = 16;
using Tables = std::array<std::array<std::uint32_t, 256>, slices>;

constexpr Tables tables = [] {
  constexpr std::uint32_t polynomial = 0x82f63b78;  // reflected
  Tables result{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? polynomial : 0);
    result[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < slices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = result[slice - 1][byte];
      result[slice][byte] = (before >> 8U) ^ result[0][before & 0xffU];
    }
  }
  return result;
}();

std::uint32_t byte_at(const std::byte* bytes, std::size_t i) noexcept {
  return std::to_integer<std::uint32_t>(bytes[i]);
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  std::uint32_t crc = ~std::uint32_t{0};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= slices; left -= slices, at += slices) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < slices; ++i) {
      const std::uint32_t carried = i < 4 ? (crc >> (8 * i)) & 0xffU : 0;
      next ^= tables[slices - 1 - i][byte_at(at, i) ^ carried];
    }
    crc = next;
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8U) ^ tables[0][(crc ^ byte_at(at, 0)) & 0xffU];
  return ~crc;
}

}  // namespace lockstep::input
