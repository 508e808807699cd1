// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Uses the processor's CRC instruction if there is one. Otherwise processes sixteen bytes at a time, with sixteen
// tables ("slicing", Kounavis and Berry 2005).

#include "base/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::detail {
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

std::uint32_t by_bytes(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  for (const std::byte byte : bytes)
    crc = (crc >> 8U) ^ tables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffU];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> bytes) noexcept {
  std::uint64_t crc = 0xffffffffU;
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  return ~by_bytes(static_cast<std::uint32_t>(crc), bytes);
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return by_instruction(bytes);
#endif
  return crc32c_by_table(bytes);
}

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) noexcept {
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
  return ~by_bytes(crc, {at, left});
}

}  // namespace lockstep::detail
