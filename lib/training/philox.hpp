// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): for each 64-bit
// key, a bijection of 128-bit counters. The values of the bijection at successive counters are random numbers.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

[[nodiscard]] constexpr PhiloxCounter philox_4x32_10(PhiloxCounter counter, PhiloxKey key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The words of one stream of a key, from position `word` on. `stream` and `number` are the two upper words of the
/// counter.
class PhiloxWords {
 public:
  PhiloxWords(std::uint64_t key, std::uint32_t stream, std::uint32_t number, std::uint64_t word) noexcept
      : key_{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)},
        stream_(stream),
        number_(number),
        block_(word / 4),
        used_(static_cast<std::size_t>(word % 4)) {
    make_block();
  }

  std::uint32_t next() noexcept {
    if (used_ == words_.size()) {
      ++block_;
      used_ = 0;
      make_block();
    }
    return words_[used_++];
  }
  /// Two words, the low one first.
  std::uint64_t next_64() noexcept {
    const std::uint64_t low = next();
    return low | std::uint64_t{next()} << 32;
  }

 private:
  void make_block() noexcept {
    words_ = philox_4x32_10(
        {static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32), stream_, number_}, key_);
  }

  PhiloxKey key_;
  std::uint32_t stream_;
  std::uint32_t number_;
  std::uint64_t block_;
  std::size_t used_;
  PhiloxCounter words_{};
};

}  // namespace lockstep::detail
