// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The distribution of a list of tensors over owners. A list is one element space: the concatenation of its tensors.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// Elements [begin, end) of tensor `item` of a list. Never empty.
struct TensorRange {
  std::uint32_t item = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const TensorRange&, const TensorRange&) = default;
};

/// Slices are cut at multiples of this number of elements: at whole cache lines for types of 4 bytes and more.
inline constexpr std::int64_t grain_elements = 16;

/// Cuts tensors of `counts` elements into `parts` slices of nearly equal size, at multiples of grain_elements inside of
/// each tensor. The slices cover every element once. If the list is short, some slices are empty.
[[nodiscard]] std::vector<std::vector<TensorRange>> even_slices(std::span<const std::int64_t> counts, int parts);

/// All elements as one slice, with one range per non-empty tensor.
[[nodiscard]] std::vector<TensorRange> whole_slice(std::span<const std::int64_t> counts);

/// Number of elements of a slice.
[[nodiscard]] std::int64_t element_count(std::span<const TensorRange> slice);

}  // namespace lockstep::detail
