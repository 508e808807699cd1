// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/agreement_pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

/// Carries out the rounds of all members: what each knows after them, in the order in which it has joined it.
std::vector<std::vector<int>> known_after_all_rounds(int members) {
  std::vector<std::vector<AgreementRound>> rounds;
  std::vector<std::vector<int>> known;
  const AgreementPattern pattern(members);
  for (int member = 0; member < members; ++member) {
    rounds.push_back(pattern.rounds(member));
    known.push_back({member});
  }
  std::set<std::pair<int, int>> pairs;
  for (std::size_t k = 0; k < rounds.front().size(); ++k) {
    std::vector<std::vector<int>> joined(known.size());
    for (int member = 0; member < members; ++member) {
      const AgreementRound& round = rounds[static_cast<std::size_t>(member)][k];
      for (std::size_t group = 0; group < round.sources.size(); ++group) {
        const int source = round.sources[group];
        const std::vector<int>& part = known[static_cast<std::size_t>(source)];
        // the whole group and nothing else, in order
        std::vector<int> expected(static_cast<std::size_t>(round.bounds[group + 1] - round.bounds[group]));
        std::iota(expected.begin(), expected.end(), round.bounds[group]);
        EXPECT_EQ(part, expected) << members << " members, round " << k;
        std::vector<int>& all = joined[static_cast<std::size_t>(member)];
        all.insert(all.end(), part.begin(), part.end());
        if (source == member) {
          EXPECT_EQ(static_cast<int>(group), round.group);
          continue;
        }
        const auto& targets = rounds[static_cast<std::size_t>(source)][k].targets;
        EXPECT_EQ(std::count(targets.begin(), targets.end(), member), 1);
        EXPECT_TRUE(pairs.emplace(source, member).second) << "two messages from " << source << " to " << member;
      }
    }
    known = std::move(joined);
  }
  std::size_t sent = 0;
  for (const auto& of_member : rounds) {
    for (const AgreementRound& round : of_member) sent += round.targets.size();
  }
  EXPECT_EQ(sent, pairs.size()) << "a message that is not received";
  return known;
}

TEST(AgreementRounds, join_all_members_in_order) {
  for (int members = 1; members <= 130; ++members) {
    std::vector<int> all(static_cast<std::size_t>(members));
    std::iota(all.begin(), all.end(), 0);
    for (const auto& known : known_after_all_rounds(members)) EXPECT_EQ(known, all);
  }
}

TEST(AgreementRounds, are_logarithmic) {
  EXPECT_TRUE(AgreementPattern(1).rounds(0).empty());
  for (const auto& [members, rounds] :
       {std::pair{2, 1U}, {4, 1U}, {5, 1U}, {6, 2U}, {16, 2U}, {17, 2U}, {65, 3U}, {1024, 5U}, {100'000, 9U}}) {
    const AgreementPattern pattern(members);
    for (const int member : {0, 1, members / 2, members - 1})
      EXPECT_EQ(pattern.rounds(member).size(), rounds) << members;
  }
}

TEST(AgreementRounds, have_few_messages_for_any_number_of_members) {
  for (int members = 2; members <= 1100; members += members < 300 ? 1 : 37) {
    const AgreementPattern pattern(members);
    for (int member = 0; member < members; ++member) {
      for (const AgreementRound& round : pattern.rounds(member)) {
        EXPECT_LE(round.sources.size(), 5U) << members;
        EXPECT_LE(round.targets.size(), 12U) << members;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::detail
