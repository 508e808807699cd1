// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/levels.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace lockstep::test {
namespace {

using detail::Levels;
using detail::NodePlace;

/// Ranks in the order of cores: `ranks_of_domains[s]` has the numbers of ranks of the domains of socket s.
std::vector<NodePlace> in_order(const std::vector<std::vector<int>>& ranks_of_domains) {
  std::vector<NodePlace> places;
  std::int32_t domain = 0;
  for (std::size_t socket = 0; socket < ranks_of_domains.size(); ++socket) {
    for (const int ranks : ranks_of_domains[socket]) {
      places.insert(places.end(), static_cast<std::size_t>(ranks), {static_cast<std::int32_t>(socket), domain});
      ++domain;
    }
  }
  return places;
}

std::vector<NodePlace> even(int sockets, int domains, int ranks) {
  return in_order(
      std::vector(static_cast<std::size_t>(sockets), std::vector(static_cast<std::size_t>(domains), ranks)));
}

std::string levels_of(const std::vector<NodePlace>& places) { return Levels(places).text(); }

TEST(Levels, are_one_if_the_ranks_are_few_or_share_a_cache) {
  EXPECT_EQ(levels_of(even(1, 1, 1)), "1");
  EXPECT_EQ(levels_of(even(1, 1, 2)), "2");
  EXPECT_EQ(levels_of(even(2, 4, 1)), "8");
  EXPECT_EQ(levels_of(even(1, 1, 16)), "16");
}

TEST(Levels, follow_domains_and_sockets) {
  EXPECT_EQ(levels_of(even(2, 8, 8)), "8.8.2");
  EXPECT_EQ(levels_of(even(2, 12, 8)), "8.12.2");
  EXPECT_EQ(levels_of(even(1, 4, 8)), "8.4");
  EXPECT_EQ(levels_of(even(2, 1, 16)), "16.2");
  EXPECT_EQ(levels_of(in_order({{6, 6, 5}, {6, 1, 6}})), "6.3.2");
  EXPECT_EQ(levels_of(in_order({{12}, {3}})), "12.2");
  EXPECT_TRUE(Levels(even(2, 8, 8)).follow_places());
}

TEST(Levels, drop_those_of_single_ranks) { EXPECT_EQ(levels_of(even(2, 8, 1)), "8.2"); }

TEST(Levels, cut_large_domains) {
  EXPECT_EQ(levels_of(even(2, 1, 56)), "8.7.2");
  EXPECT_EQ(levels_of(even(2, 1, 72)), "8.9.2");
  EXPECT_EQ(levels_of(even(1, 1, 17)), "9.2");
  EXPECT_EQ(levels_of(even(1, 1, 64)), "8.8");
  EXPECT_EQ(levels_of(even(1, 24, 8)), "8.8.3");
}

TEST(Levels, ignore_places_of_ranks_in_another_order) {
  std::vector<NodePlace> places;
  for (std::int32_t rank = 0; rank < 64; ++rank) places.push_back({rank % 2, rank % 8});
  EXPECT_EQ(levels_of(places), "8.8");
  EXPECT_FALSE(Levels(places).follow_places());
  EXPECT_EQ(levels_of(std::vector<NodePlace>(64, NodePlace{-1, -1})), "8.8");  // ranks that are not bound
}

/// What `rank` knows after all levels, if it knows itself before.
void expect_complete(const Levels& levels) {
  std::vector<std::set<int>> known;
  for (int rank = 0; rank < levels.ranks(); ++rank) known.push_back({rank});
  for (int level = 0; level < levels.count(); ++level) {
    const auto before = known;
    for (int rank = 0; rank < levels.ranks(); ++rank) {
      const std::vector<int> bounds = levels.bounds(level, rank);
      const std::vector<int> sources = levels.sources(level, rank);
      ASSERT_EQ(sources.size() + 1, bounds.size());
      for (std::size_t group = 0; group < sources.size(); ++group) {
        const auto& group_knows = before[static_cast<std::size_t>(sources[group])];
        std::set<int> expected;
        for (int other = bounds[group]; other < bounds[group + 1]; ++other) expected.insert(other);
        EXPECT_EQ(group_knows, expected) << "level " << level << ", rank " << rank;
        known[static_cast<std::size_t>(rank)].insert(group_knows.begin(), group_knows.end());
      }
    }
  }
  for (const auto& all : known) EXPECT_EQ(all.size(), static_cast<std::size_t>(levels.ranks()));
}

TEST(Levels, tell_every_rank_about_all_ranks) {
  for (int ranks = 1; ranks <= (test::is_quick() ? 70 : 200); ++ranks)
    expect_complete(Levels(std::vector<NodePlace>(static_cast<std::size_t>(ranks))));
  expect_complete(Levels(even(2, 12, 8)));
  expect_complete(Levels(in_order({{6, 6, 5}, {6, 1, 6}, {2}})));
  expect_complete(Levels(in_order({{1, 1, 20}, {7, 33}})));
}

TEST(Levels, have_few_sources) {
  const auto sources_of = [](const Levels& levels, int rank) {
    std::size_t count = 0;
    for (int level = 0; level < levels.count(); ++level) count += levels.sources(level, rank).size() - 1;
    return count;
  };
  for (const int rank : {0, 63, 64, 127}) EXPECT_EQ(sources_of(Levels(even(2, 8, 8)), rank), 15U);
  for (int ranks = 9; ranks < 400; ++ranks) {
    const Levels levels(std::vector<NodePlace>(static_cast<std::size_t>(ranks)));
    EXPECT_LE(levels.count(), Levels::most_levels);
    EXPECT_LE(sources_of(levels, ranks - 1), 27U) << ranks;
  }
}

}  // namespace
}  // namespace lockstep::test
