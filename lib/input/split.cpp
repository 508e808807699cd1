// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/split.hpp"

#include <algorithm>

namespace lockstep::input {
namespace {

RowRange within(std::int64_t rows, std::int64_t begin, std::int64_t end) noexcept {
  const std::int64_t first = std::min(begin, rows);
  return {first, std::min(end, rows) - first};
}

}  // namespace

RowRange chunk_of(SplitPolicy policy, std::int64_t full, std::int64_t rows, int replicas, int replica) noexcept {
  if (policy == SplitPolicy::ceil_slices) {
    const std::int64_t slice = rows / replicas + (rows % replicas != 0 ? 1 : 0);
    return within(rows, replica * slice, (replica + 1) * slice);
  }
  const std::int64_t size = std::max(full, rows);
  const auto begin = [&](std::int64_t r) { return r * (size / replicas) + std::min(r, size % replicas); };
  return within(rows, begin(replica), begin(replica + 1));
}

}  // namespace lockstep::input
