// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Who owns which elements of a list of tensors. A list is one element space, the tensors one after the other.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Elements [begin, end) of one tensor of a list. Never empty.
struct Piece {
  std::uint32_t item = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Slices are cut at multiples of this many elements: whole cache lines for every type of 4 bytes.
inline constexpr std::int64_t grain_elements = 16;

/// Cuts tensors of `counts` elements into `parts` slices of nearly equal size, at multiples of grain_elements inside
/// each tensor. Slices of one list tile it; some are empty when there is little to cut.
[[nodiscard]] std::vector<std::vector<Piece>> even_slices(std::span<const std::int64_t> counts, int parts);

/// One piece per non-empty tensor: everything.
[[nodiscard]] std::vector<Piece> whole_slice(std::span<const std::int64_t> counts);

/// All elements of a slice.
[[nodiscard]] std::int64_t element_count(std::span<const Piece> slice);

}  // namespace lockstep::detail
