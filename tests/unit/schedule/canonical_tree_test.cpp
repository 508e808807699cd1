// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/canonical_tree.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace lockstep::detail {
namespace {

/// Runs a fold on names, so that the tree can be read: "((0 1) 2)".
std::string spell(const std::vector<std::string>& names, const std::vector<std::uint8_t>& merges) {
  std::vector<std::string> stack;
  for (std::size_t i = 0; i < names.size(); ++i) {
    stack.push_back(names[i]);
    for (int m = merges[i]; m > 0; --m) {
      const std::string right = stack.back();
      stack.pop_back();
      stack.back() = '(' + stack.back() + ' ' + right + ')';
    }
  }
  return stack.size() == 1 ? stack.front() : "not one root";
}

/// The tree by its recursive definition.
std::string defined(int first, int size, int replicas) {
  if (size == 1) return std::to_string(first);
  const std::string left = defined(first, size / 2, replicas);
  if (first + size / 2 >= replicas) return left;
  return '(' + left + ' ' + defined(first + size / 2, size / 2, replicas) + ')';
}

std::string whole(int replicas) {
  int size = 1;
  while (size < replicas) size *= 2;
  return defined(0, size, replicas);
}

TEST(CanonicalTree, passes_the_left_half_through_when_the_right_is_empty) {
  EXPECT_EQ(whole(3), "((0 1) 2)");
  EXPECT_EQ(whole(5), "(((0 1) (2 3)) 4)");
  EXPECT_EQ(whole(6), "(((0 1) (2 3)) (4 5))");
}

TEST(CanonicalTree, covers_an_aligned_range_by_one_block) {
  EXPECT_EQ(aligned_blocks(4, 8, 16), (std::vector<Block>{{4, 8}}));
  EXPECT_EQ(aligned_blocks(0, 16, 16), (std::vector<Block>{{0, 16}}));
  EXPECT_EQ(aligned_blocks(4, 6, 6), (std::vector<Block>{{4, 6}}));
  EXPECT_EQ(aligned_blocks(1, 7, 8), (std::vector<Block>{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_EQ(aligned_blocks(3, 3, 8), (std::vector<Block>{}));
}

TEST(CanonicalTree, is_the_same_for_every_split_into_two_and_three_ranges) {
  for (int replicas = 1; replicas <= (test::is_quick() ? 20 : 40); ++replicas) {
    for (int a = 0; a <= replicas; ++a) {
      for (int b = a; b <= replicas; ++b) {
        std::vector<Block> inputs;
        std::vector<std::string> names;
        for (const auto& [first, last] : {Block{0, a}, Block{a, b}, Block{b, replicas}}) {
          for (const Block& block : aligned_blocks(first, last, replicas)) {
            inputs.push_back(block);
            std::vector<std::string> leaves;
            for (int r = block.first; r < block.last; ++r) leaves.push_back(std::to_string(r));
            names.push_back(spell(leaves, fold_merges_of_leaves(block)));
          }
        }
        ASSERT_EQ(spell(names, fold_merges(inputs, {0, replicas})), whole(replicas))
            << replicas << ' ' << a << ' ' << b;
      }
    }
  }
}

TEST(CanonicalTree, needs_a_stack_of_logarithmic_depth) {
  EXPECT_EQ(stack_depth(fold_merges_of_leaves({0, 1})), 1);
  EXPECT_EQ(stack_depth(fold_merges_of_leaves({0, 1 << 17})), 18);
  EXPECT_LE(stack_depth(fold_merges_of_leaves({0, (1 << 17) - 1})), 18);
}

}  // namespace
}  // namespace lockstep::detail
