// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A list of tensors as one space of elements, and the memory of a range of it.

#pragma once

#include "schedule/mixed_radix.hpp"
#include "schedule/partition.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// The tensors one after the other.
class ElementSpace {
 public:
  explicit ElementSpace(std::span<const std::int64_t> counts);

  [[nodiscard]] std::int64_t size() const noexcept { return starts_.back(); }
  /// The tensor that element `position` is in; of several that begin there, the one that is not empty.
  [[nodiscard]] std::size_t item(std::int64_t position) const;
  [[nodiscard]] std::int64_t start(std::size_t item) const { return starts_[item]; }
  [[nodiscard]] std::size_t items() const noexcept { return starts_.size() - 1; }
  /// The range with both ends moved down to multiples of 16 inside their tensors: ranges that tile the space still do.
  [[nodiscard]] ElementRange snapped(ElementRange range) const;
  /// What a snapped range covers of each tensor.
  [[nodiscard]] std::vector<TensorRange> pieces(ElementRange range) const;

 private:
  std::vector<std::int64_t> starts_;  // one more than tensors
};

/// The space in memory, when the elements of each tensor have one size: tensors begin at multiples of 64. Any range of
/// it is one stretch of bytes, so parts of it can be sent and received in place.
class ElementImage {
 public:
  ElementImage(const ElementSpace& space, std::vector<std::size_t> element_bytes);

  [[nodiscard]] std::size_t offset(std::int64_t position) const;
  [[nodiscard]] std::size_t bytes(ElementRange range) const { return offset(range.end) - offset(range.begin); }

 private:
  const ElementSpace& space_;
  std::vector<std::size_t> element_bytes_;
  std::vector<std::size_t> bases_;  // one more than tensors
};

}  // namespace lockstep::detail
