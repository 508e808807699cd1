// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/tcp/siphash.hpp"

#include <bit>

namespace lockstep::detail {
namespace {

/// Up to 8 bytes as a little-endian number.
std::uint64_t word_of(std::span<const std::byte> bytes) noexcept {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) word |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return word;
}

struct SipHashState {
  std::uint64_t v0, v1, v2, v3;

  void rounds(int count) noexcept {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }
  void add(std::uint64_t word) noexcept {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
  [[nodiscard]] std::uint64_t sum() const noexcept { return v0 ^ v1 ^ v2 ^ v3; }
};

}  // namespace

SipHashCode siphash(const SipHashKey& key, std::span<const std::byte> data) noexcept {
  SipHashState state{key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU ^ 0xeeU, key[0] ^ 0x6c7967656e657261U,
                     key[1] ^ 0x7465646279746573U};
  const std::uint64_t size = data.size();
  for (; data.size() >= 8; data = data.subspan(8)) state.add(word_of(data.first(8)));
  state.add(word_of(data) | size << 56);
  state.v2 ^= 0xeeU;
  state.rounds(4);
  const std::uint64_t first = state.sum();
  state.v1 ^= 0xddU;
  state.rounds(4);
  return {first, state.sum()};
}

}  // namespace lockstep::detail
