// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/gpu/fold_parts.hpp"

#include "base/check.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

/// A value on the stack of the fold: a subtree over inputs [first, last).
struct Node {
  std::size_t first;
  std::size_t last;
  FoldParts cut;  // where it is too large for one part
};

}  // namespace

FoldParts fold_parts(std::span<const std::uint8_t> merges, std::size_t most) {
  // evaluates the fold with subtrees for values; one that has become too large is cut where its halves meet
  const auto cut_of = [&](const Node& node) {
    if (!node.cut.parts.empty()) return node.cut;
    const auto own = merges.subspan(node.first, node.last - node.first);
    FoldPart part{node.first, {own.begin(), own.end()}};
    // the last input also closes subtrees above this one
    std::size_t above = 0;
    for (const std::uint8_t count : own) above += count;
    part.merges.back() = static_cast<std::uint8_t>(part.merges.back() - (above - (own.size() - 1)));
    return FoldParts{{std::move(part)}, {0}};
  };
  std::vector<Node> stack;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    stack.push_back({i, i + 1, {}});
    for (int merge = 0; merge < merges[i]; ++merge) {
      LOCKSTEP_CHECK(stack.size() >= 2);
      const Node right = std::move(stack.back());
      stack.pop_back();
      Node& left = stack.back();
      if (right.last - left.first > most) {
        FoldParts both = cut_of(left);
        const FoldParts tail = cut_of(right);
        both.parts.insert(both.parts.end(), tail.parts.begin(), tail.parts.end());
        both.merges.insert(both.merges.end(), tail.merges.begin(), tail.merges.end());
        ++both.merges.back();
        left.cut = std::move(both);
      }
      left.last = right.last;
    }
  }
  LOCKSTEP_CHECK(stack.size() == 1);
  return cut_of(stack.front());
}

}  // namespace lockstep::detail
