// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/permutation.hpp"

#include <utility>

namespace lockstep::input {
namespace {

constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U;

constexpr std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

__extension__ using Wide = unsigned __int128;

}  // namespace

// Mixed twice; otherwise the sequence of pass + 1 would be that of pass, shifted by one number.
RandomSequence::RandomSequence(std::uint64_t seed, std::uint64_t pass) noexcept
    : state_(mix(mix(seed + golden) + (pass + 1) * golden)) {}

std::uint64_t RandomSequence::next() noexcept { return mix(state_ += golden); }

std::uint64_t RandomSequence::below(std::uint64_t bound) noexcept {
  Wide product = Wide{next()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t rejected = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < rejected) product = Wide{next()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64U);
}

void permute(std::span<std::int64_t> values, RandomSequence& random) noexcept {
  for (std::size_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[static_cast<std::size_t>(random.below(left))]);
  }
}

}  // namespace lockstep::input
