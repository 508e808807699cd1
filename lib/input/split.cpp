// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/split.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace lockstep {

std::string_view to_string(SplitPolicy policy) noexcept {
  switch (policy) {
    case SplitPolicy::fixed_chunks: return "FIXED_CHUNKS";
    case SplitPolicy::ceil_slices: return "CEIL_SLICES";
  }
  return "unknown";
}

std::string_view to_string(AutoShardPolicy policy) noexcept {
  switch (policy) {
    case AutoShardPolicy::automatic: return "AUTO";
    case AutoShardPolicy::file: return "FILE";
    case AutoShardPolicy::data: return "DATA";
    case AutoShardPolicy::off: return "OFF";
    case AutoShardPolicy::hint: return "HINT";
    case AutoShardPolicy::file_or_data: return "FILE_OR_DATA";
  }
  return "unknown";
}

}  // namespace lockstep

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

std::vector<std::int64_t> stream_chunks(std::int64_t full, int replicas, int first) {
  std::vector<std::int64_t> sizes;
  for (int r = 0; r < replicas; ++r) {
    sizes.push_back(chunk_of(SplitPolicy::fixed_chunks, full, full, replicas, (first + r) % replicas).count);
  }
  return sizes;
}

std::int64_t chunks_of_stream(std::span<const std::int64_t> sizes, std::int64_t rows) noexcept {
  if (rows == 0) return 0;
  const std::int64_t full = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const std::int64_t rounds = (rows - 1) / full;
  std::int64_t chunks = rounds * static_cast<std::int64_t>(sizes.size());
  for (std::int64_t left = rows - rounds * full; left > 0; ++chunks)
    left -= sizes[static_cast<std::size_t>(chunks) % sizes.size()];
  return chunks;
}

}  // namespace lockstep::input
