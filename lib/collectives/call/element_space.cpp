// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/element_space.hpp"
#include "collectives/call/host_item.hpp"

#include "base/processor.hpp"
#include "schedule/partition.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::detail {

ElementSpace::ElementSpace(std::span<const std::int64_t> counts) {
  starts_.reserve(counts.size() + 1);
  starts_.push_back(0);
  for (const std::int64_t count : counts) starts_.push_back(starts_.back() + count);
}

std::size_t ElementSpace::item(std::int64_t position) const {
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), position);
  return static_cast<std::size_t>(next - starts_.begin()) - 1;
}

ElementRange ElementSpace::snapped(ElementRange range) const {
  const auto snap = [this](std::int64_t position) {
    if (position == size()) return position;
    const std::int64_t first = starts_[item(position)];
    return first + (position - first) / grain_elements * grain_elements;
  };
  return {snap(range.begin), snap(range.end)};
}

std::vector<TensorRange> ElementSpace::pieces(ElementRange range) const {
  std::vector<TensorRange> pieces;
  for (std::int64_t position = range.begin; position < range.end;) {
    const std::size_t at = item(position);
    const std::int64_t end = std::min(range.end, starts_[at + 1]);
    pieces.push_back({static_cast<std::uint32_t>(at), position - starts_[at], end - starts_[at]});
    position = end;
  }
  return pieces;
}

ElementImage::ElementImage(const ElementSpace& space, std::vector<std::size_t> element_bytes)
    : space_(space), element_bytes_(std::move(element_bytes)) {
  bases_.reserve(element_bytes_.size() + 1);
  bases_.push_back(0);
  for (std::size_t item = 0; item < element_bytes_.size(); ++item) {
    const auto count = static_cast<std::size_t>(space.start(item + 1) - space.start(item));
    bases_.push_back(bases_.back() + whole_lines(count * element_bytes_[item]));
  }
}

std::size_t ElementImage::offset(std::int64_t position) const {
  if (position == space_.size()) return bases_.back();
  const std::size_t item = space_.item(position);
  return bases_[item] + static_cast<std::size_t>(position - space_.start(item)) * element_bytes_[item];
}

}  // namespace lockstep::detail
