// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The canonical tree: the definition of a reduction over R replicas.
//
// The leaves are replicas 0..R-1. The node of level j and index k covers replicas [k*2^j, min((k+1)*2^j, R)). Its value
// is its left half combined with its right half or, if the right half is empty, the left half. The result of a
// reduction is the value of the root. A rank that has replicas [a, b) can compute the nodes that are entirely inside of
// this range. The nodes above are folded from these partial results, in the order of replica ids.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A node of the tree. It covers replicas [first, last), and `first` is a multiple of 2^level.
struct Block {
  int first = 0;
  int last = 0;
  friend bool operator==(const Block&, const Block&) = default;
};

/// The smallest set of nodes that covers replicas [first, last) of a tree with `replicas` leaves, in id order. The set
/// has at most 2 log2(last - first) nodes. It has one node if the range is an aligned power of two.
[[nodiscard]] std::vector<Block> aligned_blocks(int first, int last, int replicas);

/// How to fold partial results in id order with a stack: push input i, then combine the two topmost entries,
/// `merges[i]` times. The inputs must tile `root`, and each input must be a node of the tree below `root`. The stack
/// never holds more than stack_depth(merges) entries.
[[nodiscard]] std::vector<std::uint8_t> fold_merges(std::span<const Block> inputs, Block root);

/// The result of fold_merges if all inputs are single leaves.
[[nodiscard]] std::vector<std::uint8_t> fold_merges_of_leaves(Block root);

/// The maximum number of entries on the stack in a fold with `merges`.
[[nodiscard]] int stack_depth(std::span<const std::uint8_t> merges);

}  // namespace lockstep::detail
