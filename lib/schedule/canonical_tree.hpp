// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The canonical tree: the definition of a reduction over R replicas.
//
// Leaves are replicas 0..R-1. The node of level j and index k covers replicas [k*2^j, min((k+1)*2^j, R)) and is its
// left half combined with its right half; where the right half is empty, the left half passes through. A reduction is
// the root. Whoever holds replicas [a, b) can compute the nodes that lie wholly inside; everything above them is folded
// from those partials, in id order.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A node of the tree by the replicas that it covers: [first, last), first a multiple of the node's power of two.
struct Block {
  int first = 0;
  int last = 0;
  friend bool operator==(const Block&, const Block&) = default;
};

/// The fewest nodes that cover [first, last) of a tree over `replicas` leaves, in id order. At most 2 log2(last -
/// first) of them; one where a rank owns an aligned power of two.
[[nodiscard]] std::vector<Block> aligned_blocks(int first, int last, int replicas);

/// How to fold partials in id order with a stack: after pushing input i, combine the two topmost entries `merges[i]`
/// times. `inputs` must tile `root`, each being a node of the tree below it. The stack never holds more than
/// stack_depth(merges) entries.
[[nodiscard]] std::vector<std::uint8_t> fold_merges(std::span<const Block> inputs, Block root);

/// fold_merges of single leaves.
[[nodiscard]] std::vector<std::uint8_t> fold_merges_of_leaves(Block root);

/// The most entries that a fold with these merges has on its stack.
[[nodiscard]] int stack_depth(std::span<const std::uint8_t> merges);

}  // namespace lockstep::detail
