// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_plan.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::size_t line_bytes = 64;
/// A slice below this is not worth an owner: the lines of its ends cost more than its sums.
constexpr std::size_t least_slice_bytes = 2048;

std::size_t padded(std::int64_t elements, DType dtype) {
  return (static_cast<std::size_t>(elements) * size_of(dtype) + line_bytes - 1) / line_bytes * line_bytes;
}

/// One round over `ranges`, pieces of the list in order.
NodeRound cut_round(std::span<const HostItem> items, ReduceOp op, int ranks, std::span<const Piece> ranges) {
  std::vector<std::int64_t> counts;
  std::size_t bytes = 0;
  for (const Piece& range : ranges) {
    counts.push_back(range.end - range.begin);
    bytes += static_cast<std::size_t>(counts.back()) * size_of(items[range.item].dtype);
  }
  const int owners =
      static_cast<int>(std::clamp<std::size_t>(bytes / least_slice_bytes, 1, static_cast<std::size_t>(ranks)));
  NodeRound round;
  round.slices.resize(static_cast<std::size_t>(ranks));
  const auto slices = even_slices(counts, owners);
  for (std::size_t owner = 0; owner < slices.size(); ++owner) {
    std::size_t result_bytes = 0;
    for (const Piece& slice : slices[owner]) {
      const Piece& range = ranges[slice.item];
      const DType dtype = items[range.item].dtype;
      const std::int64_t count = slice.end - slice.begin;
      round.slices[owner].push_back(
          {{range.item, range.begin + slice.begin, range.begin + slice.end}, round.input_bytes, result_bytes});
      round.input_bytes += padded(count, dtype);
      result_bytes += padded(count, result_dtype(op, dtype));
    }
    round.most_result_bytes = std::max(round.most_result_bytes, result_bytes);
  }
  return round;
}

}  // namespace

std::vector<NodeRound> cut_rounds(std::span<const HostItem> items, ReduceOp op, int ranks, std::size_t round_bytes) {
  std::vector<NodeRound> rounds;
  std::vector<Piece> ranges;
  std::size_t bytes = 0;
  const auto end_round = [&] {
    rounds.push_back(cut_round(items, op, ranks, ranges));
    ranges.clear();
    bytes = 0;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t element = size_of(items[i].dtype);
    for (std::int64_t begin = 0; begin < items[i].count();) {
      // whole lines of elements, so that every round starts aligned
      const auto room = static_cast<std::int64_t>(
          std::max<std::size_t>((round_bytes - bytes) / element / line_bytes, 1) * line_bytes);
      const std::int64_t end = std::min(begin + room, items[i].count());
      ranges.push_back({static_cast<std::uint32_t>(i), begin, end});
      bytes += padded(end - begin, items[i].dtype);
      begin = end;
      if (bytes >= round_bytes) end_round();
    }
  }
  if (!ranges.empty() || rounds.empty()) end_round();
  return rounds;
}

}  // namespace lockstep::detail
