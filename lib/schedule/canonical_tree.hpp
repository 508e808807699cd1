// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The canonical tree: the definition of a reduction over R replicas.
//
// Leaves are replicas 0..R-1. The node of level j and index k covers replicas [k*2^j, min((k+1)*2^j, R)) and is its
// left half combined with its right half; if the right half is empty, the left half passes through. A reduction is the
// root. A rank that has replicas [a, b) can compute the nodes that are entirely inside; the nodes above them are folded
// from those partial results, in id order.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A node of the tree, by the replicas that it covers: [first, last), where first is a multiple of the node's power of
/// two.
struct Block {
  int first = 0;
  int last = 0;
  friend bool operator==(const Block&, const Block&) = default;
};

/// The smallest set of nodes that covers [first, last) of a tree over `replicas` leaves, in id order. Has at most 2
/// log2(last - first) nodes; one if a rank owns an aligned power of two.
[[nodiscard]] std::vector<Block> aligned_blocks(int first, int last, int replicas);

/// How to fold partials in id order with a stack: after pushing input i, combine the two topmost entries `merges[i]`
/// times. `inputs` must tile `root`, each being a node of the tree below it. The stack never holds more than
/// stack_depth(merges) entries.
[[nodiscard]] std::vector<std::uint8_t> fold_merges(std::span<const Block> inputs, Block root);

/// The result of fold_merges if all inputs are single leaves.
[[nodiscard]] std::vector<std::uint8_t> fold_merges_of_leaves(Block root);

/// The maximum number of entries on the stack of a fold with these merges.
[[nodiscard]] int stack_depth(std::span<const std::uint8_t> merges);

}  // namespace lockstep::detail
