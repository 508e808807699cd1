// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A list of tensors as one sequence of elements (an element space), and the layout of this sequence in memory.

#pragma once

#include "schedule/mixed_radix.hpp"
#include "schedule/partition.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// The elements of all tensors of a list, one tensor after the other.
class ElementSpace {
 public:
  explicit ElementSpace(std::span<const std::int64_t> counts);

  [[nodiscard]] std::int64_t size() const noexcept { return starts_.back(); }
  /// The index of the tensor that contains element `position`; never the index of an empty tensor.
  [[nodiscard]] std::size_t item(std::int64_t position) const;
  [[nodiscard]] std::int64_t start(std::size_t item) const { return starts_[item]; }
  [[nodiscard]] std::size_t items() const noexcept { return starts_.size() - 1; }
  /// `range` with both ends moved down to multiples of 16 elements, counted from the start of the tensor. If ranges
  /// tile the space, the ranges that this function returns for them tile it, too.
  [[nodiscard]] ElementRange snapped(ElementRange range) const;
  /// The part of each tensor that `range` covers.
  [[nodiscard]] std::vector<TensorRange> pieces(ElementRange range) const;

 private:
  std::vector<std::int64_t> starts_;  // first element of each tensor, then the number of all elements
};

/// The layout of an element space in one buffer. All elements of one tensor have the same size, and tensors begin at
/// multiples of 64 bytes. Every range of elements is contiguous in the buffer, so it can be sent and received in place.
class ElementImage {
 public:
  ElementImage(const ElementSpace& space, std::vector<std::size_t> element_bytes);

  [[nodiscard]] std::size_t offset(std::int64_t position) const;
  [[nodiscard]] std::size_t bytes(ElementRange range) const { return offset(range.end) - offset(range.begin); }

 private:
  const ElementSpace& space_;
  std::vector<std::size_t> element_bytes_;
  std::vector<std::size_t> bases_;  // offset of each tensor in bytes, then the size of the buffer
};

}  // namespace lockstep::detail
