// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/partition.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace lockstep::detail {
namespace {

/// Computes total * part / parts without overflow.
std::int64_t share(std::int64_t total, int part, int parts) {
  return total / parts * part + total % parts * part / parts;
}

}  // namespace

std::vector<std::vector<TensorRange>> even_slices(std::span<const std::int64_t> counts, int parts) {
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::vector<std::vector<TensorRange>> slices(static_cast<std::size_t>(parts));
  std::int64_t start = 0;  // first element of this tensor in the element space
  int owner = 0;
  for (std::size_t item = 0; item < counts.size(); ++item) {
    std::int64_t begin = 0;
    while (begin < counts[item]) {
      // the end of this owner's slice inside of this tensor; the last owner takes the rest
      std::int64_t end = counts[item];
      if (owner + 1 < parts) {
        const std::int64_t bound = share(total, owner + 1, parts) - start;
        if (bound < end) end = std::max<std::int64_t>(bound, 0) / grain_elements * grain_elements;
      }
      if (end > begin)
        slices[static_cast<std::size_t>(owner)].push_back({static_cast<std::uint32_t>(item), begin, end});
      begin = std::max(begin, end);
      if (begin < counts[item]) ++owner;
    }
    start += counts[item];
  }
  return slices;
}

std::vector<TensorRange> whole_slice(std::span<const std::int64_t> counts) {
  std::vector<TensorRange> slice;
  for (std::size_t item = 0; item < counts.size(); ++item) {
    if (counts[item] > 0) slice.push_back({static_cast<std::uint32_t>(item), 0, counts[item]});
  }
  return slice;
}

std::int64_t element_count(std::span<const TensorRange> slice) {
  return std::accumulate(slice.begin(), slice.end(), std::int64_t{0},
                         [](std::int64_t sum, const TensorRange& range) { return sum + (range.end - range.begin); });
}

}  // namespace lockstep::detail
