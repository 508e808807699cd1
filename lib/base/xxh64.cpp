// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/xxh64.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace lockstep::detail {
namespace {

// the names of the specification
constexpr std::uint64_t prime_1 = 0x9e3779b185ebca87u;
constexpr std::uint64_t prime_2 = 0xc2b2ae3d27d4eb4fu;
constexpr std::uint64_t prime_3 = 0x165667b19e3779f9u;
constexpr std::uint64_t prime_4 = 0x85ebca77c2b2ae63u;
constexpr std::uint64_t prime_5 = 0x27d4eb2f165667c5u;

/// The little-endian word at `at`.
template <class Word>
std::uint64_t read(const std::byte* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  if constexpr (std::endian::native == std::endian::big && sizeof(Word) == 8) return __builtin_bswap64(word);
  if constexpr (std::endian::native == std::endian::big && sizeof(Word) == 4) return __builtin_bswap32(word);
  return word;
}

std::uint64_t round_of(std::uint64_t accumulator, std::uint64_t lane) noexcept {
  return std::rotl(accumulator + lane * prime_2, 31) * prime_1;
}

std::uint64_t merged(std::uint64_t hash, std::uint64_t accumulator) noexcept {
  return (hash ^ round_of(0, accumulator)) * prime_1 + prime_4;
}

std::uint64_t avalanche(std::uint64_t hash) noexcept {
  hash = (hash ^ (hash >> 33)) * prime_2;
  hash = (hash ^ (hash >> 29)) * prime_3;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t xxh64(std::span<const std::byte> bytes) noexcept {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t hash = prime_5;
  if (left >= 32) {
    std::array<std::uint64_t, 4> accumulators{prime_1 + prime_2, prime_2, 0, 0 - prime_1};
    for (; left >= 32; at += 32, left -= 32) {
      for (std::size_t lane = 0; lane < 4; ++lane)
        accumulators[lane] = round_of(accumulators[lane], read<std::uint64_t>(at + 8 * lane));
    }
    hash = std::rotl(accumulators[0], 1) + std::rotl(accumulators[1], 7) + std::rotl(accumulators[2], 12) +
           std::rotl(accumulators[3], 18);
    for (const std::uint64_t accumulator : accumulators) hash = merged(hash, accumulator);
  }
  hash += bytes.size();
  for (; left >= 8; at += 8, left -= 8)
    hash = std::rotl(hash ^ round_of(0, read<std::uint64_t>(at)), 27) * prime_1 + prime_4;
  if (left >= 4) {
    hash = std::rotl(hash ^ read<std::uint32_t>(at) * prime_1, 23) * prime_2 + prime_3;
    at += 4;
    left -= 4;
  }
  for (; left > 0; ++at, --left) hash = std::rotl(hash ^ read<std::uint8_t>(at) * prime_5, 11) * prime_1;
  return avalanche(hash);
}

}  // namespace lockstep::detail
