// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Pseudo-random numbers that are equal on every rank, compiler and platform.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::input {

/// SplitMix64 (Steele, Lea, Flood 2014): a counter with a mixing function.
class RandomSequence {
 public:
  /// Each pair (seed, pass) gives a different sequence.
  RandomSequence(std::uint64_t seed, std::uint64_t pass) noexcept;

  [[nodiscard]] std::uint64_t next() noexcept;
  /// A uniformly distributed number below `bound`, which is at least 1 (Lemire 2019, with rejection).
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept;

 private:
  std::uint64_t state_;
};

/// Permutes `values` uniformly: Fisher-Yates, from the end.
void permute(std::span<std::int64_t> values, RandomSequence& random) noexcept;

}  // namespace lockstep::input
