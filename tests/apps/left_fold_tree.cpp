// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Replaces the functions of the canonical tree by a fold from left to right. A program linked with this file shows that
// a test of the bits detects the difference.

#include "schedule/canonical_tree.hpp"

namespace lockstep::detail {

std::vector<Block> aligned_blocks(int first, int last, int) {
  std::vector<Block> blocks;
  for (int replica = first; replica < last; ++replica) blocks.push_back({replica, replica + 1});
  return blocks;
}

std::vector<std::uint8_t> fold_merges(std::span<const Block> inputs, Block) {
  std::vector<std::uint8_t> merges(inputs.size(), 1);
  merges.front() = 0;
  return merges;
}

std::vector<std::uint8_t> fold_merges_of_leaves(Block root) {
  return fold_merges(std::vector<Block>(static_cast<std::size_t>(root.last - root.first)), root);
}

int stack_depth(std::span<const std::uint8_t>) { return 2; }

}  // namespace lockstep::detail
