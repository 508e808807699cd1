// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/stage_fold.hpp"

#include "base/check.hpp"

namespace lockstep::detail {

StageFold stage_fold(std::span<const int> bounds, int replicas, std::optional<int> leaves) {
  StageFold fold;
  std::vector<Block> all;
  for (std::size_t group = 0; group + 1 < bounds.size(); ++group) {
    std::vector<Block> blocks;
    if (leaves == static_cast<int>(group) || leaves == every_group) {
      for (int replica = bounds[group]; replica < bounds[group + 1]; ++replica)
        blocks.push_back({replica, replica + 1});
    } else {
      blocks = aligned_blocks(bounds[group], bounds[group + 1], replicas);
    }
    all.insert(all.end(), blocks.begin(), blocks.end());
    fold.inputs.push_back(std::move(blocks));
  }
  std::size_t begin = 0;
  for (const Block& block : aligned_blocks(bounds.front(), bounds.back(), replicas)) {
    std::size_t end = begin;
    while (end < all.size() && all[end].last <= block.last) ++end;
    const auto taken = std::span<const Block>(all).subspan(begin, end - begin);
    fold.outputs.push_back({block, taken.size(), fold_merges(taken, block)});
    begin = end;
  }
  LOCKSTEP_CHECK(begin == all.size());
  return fold;
}

}  // namespace lockstep::detail
