// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers of our own, so that every rank, compiler and platform draws the same.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::input {

/// SplitMix64 (Steele, Lea, Flood 2014): a counter, mixed.
class RandomSequence {
 public:
  /// Another sequence for each pair.
  RandomSequence(std::uint64_t seed, std::uint64_t pass) noexcept;

  [[nodiscard]] std::uint64_t next() noexcept;
  /// Below `bound`, which is at least 1; each value is as likely as any other (Lemire 2019, by rejection).
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept;

 private:
  std::uint64_t state_;
};

/// Puts `values` in random order: Fisher and Yates, from the end.
void permute(std::span<std::int64_t> values, RandomSequence& random) noexcept;

}  // namespace lockstep::input
