// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/digit_rounds.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;

/// A block: the member that has it, and the member that it is for.
using Block = std::pair<int, int>;

/// The blocks of all members after all rounds, by member and number.
std::vector<std::vector<Block>> exchanged(int members, int radix) {
  std::vector<std::vector<Block>> blocks(static_cast<std::size_t>(members));
  for (int member = 0; member < members; ++member) {
    for (int j = 0; j < members; ++j)
      blocks[static_cast<std::size_t>(member)].emplace_back(member, (member + j) % members);
  }
  for (const DigitRound& round : digit_rounds(members, radix)) {
    auto next = blocks;
    for (int member = 0; member < members; ++member) {
      for (int message = 1; message <= round.messages; ++message) {
        const int target = (member + message * round.weight) % members;
        int count = 0;
        round.for_each_block(message, [&](int block) {
          ++count;
          next[static_cast<std::size_t>(target)][static_cast<std::size_t>(block)] =
              blocks[static_cast<std::size_t>(member)][static_cast<std::size_t>(block)];
        });
        EXPECT_EQ(count, round.block_count(message));
        EXPECT_GT(count, 0);
      }
    }
    blocks = std::move(next);
  }
  return blocks;
}

TEST(DigitRounds, bring_each_block_from_the_member_that_is_as_far_back) {
  for (int members = 1; members <= 40; ++members) {
    for (const int radix : {2, 3, 4, 5, 8, 40}) {
      const auto blocks = exchanged(members, radix);
      for (int member = 0; member < members; ++member) {
        for (int j = 0; j < members; ++j) {
          ASSERT_EQ(blocks[static_cast<std::size_t>(member)][static_cast<std::size_t>(j)],
                    Block((member + members - j) % members, member))
              << members << " members, radix " << radix;
        }
      }
    }
  }
}

TEST(DigitRounds, are_about_the_logarithm_of_the_members) {
  for (const int members : {2, 7, 64, 100, 1000, 100'000}) {
    for (const int radix : {2, 4, 8}) {
      const auto rounds = digit_rounds(members, radix);
      EXPECT_EQ(rounds.size(), static_cast<std::size_t>(std::ceil(std::log(members) / std::log(radix) - 1e-9)));
      for (const DigitRound& round : rounds) EXPECT_LT(round.messages, radix);
    }
    const auto direct = digit_rounds(members, members);
    ASSERT_EQ(direct.size(), 1U);
    EXPECT_EQ(direct.front().messages, members - 1);
  }
}

TEST(DigitRounds, are_several_for_small_blocks_and_one_for_large_blocks) {
  EXPECT_LT(all_to_all_radix(64, 64), 64);
  EXPECT_LT(all_to_all_radix(1000, 8), 16);
  EXPECT_EQ(all_to_all_radix(64, 1 << 20), 64);
  EXPECT_EQ(all_to_all_radix(2, 8), 2);
  EXPECT_GE(all_to_all_radix(1, 8), 2);
}

}  // namespace
}  // namespace lockstep::test
