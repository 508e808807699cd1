// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/host/node_plan.hpp"

#include "base/processor.hpp"
#include "schedule/levels.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace lockstep::detail {
namespace {

/// Minimum number of bytes of a slice, if there are several slices. For a smaller slice, the transfer of the cache
/// lines at its two ends would cost more than the additions. With many ranks, the number of ranks that share the
/// additions matters more.
constexpr std::size_t least_slice_bytes(int ranks) noexcept { return ranks <= Levels::most_neighbours ? 2048 : 128; }

std::size_t padded(std::int64_t elements, DType dtype) {
  return whole_lines(static_cast<std::size_t>(elements) * size_of(dtype));
}

/// Makes one round of `ranges`, which are in the order of `items`.
NodeRound cut_round(std::span<const HostItem> items, ReduceOp op, int ranks, std::span<const TensorRange> ranges) {
  std::vector<std::int64_t> counts;
  std::size_t bytes = 0;
  for (const TensorRange& range : ranges) {
    counts.push_back(range.end - range.begin);
    bytes += static_cast<std::size_t>(counts.back()) * size_of(items[range.item].dtype);
  }
  const int owners =
      static_cast<int>(std::clamp<std::size_t>(bytes / least_slice_bytes(ranks), 1, static_cast<std::size_t>(ranks)));
  NodeRound round;
  round.slices.resize(static_cast<std::size_t>(ranks));
  const auto slices = even_slices(counts, owners);
  for (std::size_t owner = 0; owner < slices.size(); ++owner) {
    std::size_t result_bytes = 0;
    for (const TensorRange& slice : slices[owner]) {
      const TensorRange& range = ranges[slice.item];
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

/// Makes one round of a reduce_scatter. `ranges` are elements of the first replica's part; the round has the same
/// elements of the other replicas' parts.
NodeRound cut_scatter_round(std::span<const HostItem> items, const ReplicaLayout& layout,
                            std::span<const TensorRange> ranges) {
  NodeRound round;
  for (int owner = 0; owner < layout.ranks(); ++owner) {
    auto& slice = round.slices.emplace_back();
    for (const TensorRange& range : ranges) {
      const HostItem& item = items[range.item];
      const std::int64_t part = item.count() / layout.replicas();
      for (int replica = layout.first(owner); replica < layout.first(owner + 1); ++replica) {
        const std::int64_t begin = part * replica;
        slice.push_back({{range.item, begin + range.begin, begin + range.end}, round.input_bytes, 0});
        round.input_bytes += padded(range.end - range.begin, item.dtype);
      }
    }
  }
  return round;
}

/// Cuts the first `counts[i]` elements of each item i into ranges, in order, for rounds of about `round_bytes` bytes.
/// Each element counts `copies` times.
std::vector<std::vector<TensorRange>> cut_ranges(std::span<const HostItem> items, std::span<const std::int64_t> counts,
                                                 std::size_t copies, std::size_t round_bytes) {
  std::vector<std::vector<TensorRange>> rounds(1);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t element = size_of(items[i].dtype) * copies;
    for (std::int64_t begin = 0; begin < counts[i];) {
      if (bytes >= round_bytes) {
        rounds.emplace_back();
        bytes = 0;
      }
      // a range that ends a round has whole cache lines, so that the next round starts aligned
      const auto room = static_cast<std::int64_t>(
          std::max<std::size_t>((round_bytes - bytes) / element / line_bytes, 1) * line_bytes);
      const std::int64_t end = std::min(begin + room, counts[i]);
      rounds.back().push_back({static_cast<std::uint32_t>(i), begin, end});
      bytes += padded(end - begin, items[i].dtype) * copies;
      begin = end;
    }
  }
  return rounds;
}

}  // namespace

std::vector<NodeRound> cut_rounds(std::span<const HostItem> items, ReduceOp op, int ranks, std::size_t round_bytes) {
  std::vector<std::int64_t> counts;
  for (const HostItem& item : items) counts.push_back(item.count());
  std::vector<NodeRound> rounds;
  for (const auto& ranges : cut_ranges(items, counts, 1, round_bytes))
    rounds.push_back(cut_round(items, op, ranks, ranges));
  return rounds;
}

std::vector<NodeRound> cut_scatter_rounds(std::span<const HostItem> items, const ReplicaLayout& layout,
                                          std::size_t round_bytes) {
  std::vector<std::int64_t> parts;
  for (const HostItem& item : items) parts.push_back(item.count() / layout.replicas());
  std::vector<NodeRound> rounds;
  for (const auto& ranges : cut_ranges(items, parts, static_cast<std::size_t>(layout.replicas()), round_bytes))
    rounds.push_back(cut_scatter_round(items, layout, ranges));
  return rounds;
}

}  // namespace lockstep::detail
