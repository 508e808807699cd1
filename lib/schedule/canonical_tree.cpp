// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/canonical_tree.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace lockstep::detail {
namespace {

/// Visits the node [first, first + size) in post-order; `next` is the index of the next input.
void fold(std::span<const Block> inputs, int first, int size, int limit, std::size_t& next,
          std::vector<std::uint8_t>& merges) {
  const Block node{first, std::min(first + size, limit)};
  LOCKSTEP_CHECK(next < inputs.size());
  if (inputs[next] == node) {
    ++next;
    merges.push_back(0);
    return;
  }
  const int half = size / 2;
  LOCKSTEP_CHECK(half > 0);
  fold(inputs, first, half, limit, next, merges);
  if (first + half >= limit) return;  // the right half is empty: the node is its left half
  fold(inputs, first + half, half, limit, next, merges);
  ++merges.back();
}

}  // namespace

std::vector<Block> aligned_blocks(int first, int last, int replicas) {
  LOCKSTEP_CHECK(0 <= first && first <= last && last <= replicas);
  std::vector<Block> blocks;
  while (first < last) {
    int size = 1;
    // grow while the next larger node also starts at `first`, is inside of the range, and covers more replicas
    while (first % (2 * size) == 0 && first + size < replicas && std::min(first + 2 * size, replicas) <= last)
      size *= 2;
    const Block block{first, std::min(first + size, replicas)};
    blocks.push_back(block);
    first = block.last;
  }
  return blocks;
}

std::vector<std::uint8_t> fold_merges(std::span<const Block> inputs, Block root) {
  std::vector<std::uint8_t> merges;
  merges.reserve(inputs.size());
  std::size_t next = 0;
  const auto width = static_cast<unsigned>(root.last - root.first);
  fold(inputs, root.first, static_cast<int>(std::bit_ceil(width)), root.last, next, merges);
  LOCKSTEP_CHECK(next == inputs.size());
  return merges;
}

std::vector<std::uint8_t> fold_merges_of_leaves(Block root) {
  std::vector<Block> leaves;
  for (int replica = root.first; replica < root.last; ++replica) leaves.push_back({replica, replica + 1});
  return fold_merges(leaves, root);
}

int stack_depth(std::span<const std::uint8_t> merges) {
  int depth = 0;
  int deepest = 0;
  for (const std::uint8_t count : merges) {
    deepest = std::max(deepest, ++depth);
    depth -= count;
  }
  return deepest;
}

}  // namespace lockstep::detail
