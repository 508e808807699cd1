// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/partition.hpp"

#include "schedule/dissemination.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lockstep::detail {
namespace {

TEST(EvenSlices, tile_every_list_and_cut_at_cache_lines) {
  const std::vector<std::vector<std::int64_t>> lists{
      {1}, {0}, {1000}, {3, 0, 5}, {16, 16, 16}, {1, 70, 1000, 2, 0, 33}, {17}, {200'000, 10}};
  for (const auto& counts : lists) {
    for (int parts = 1; parts <= 9; ++parts) {
      std::vector<std::int64_t> next(counts.size(), 0);
      const auto slices = even_slices(counts, parts);
      ASSERT_EQ(slices.size(), static_cast<std::size_t>(parts));
      for (const auto& slice : slices) {
        for (const TensorRange& range : slice) {
          EXPECT_EQ(range.begin, next[range.item]);
          EXPECT_LT(range.begin, range.end);
          EXPECT_EQ(range.begin % 16, 0);
          next[range.item] = range.end;
        }
      }
      EXPECT_EQ(next, counts);
    }
  }
}

TEST(EvenSlices, are_nearly_equal_for_large_tensors) {
  const std::vector<std::int64_t> counts{1'000'000, 3};
  for (const auto& slice : even_slices(counts, 7))
    EXPECT_NEAR(static_cast<double>(element_count(slice)), 1'000'003 / 7.0, 32);
}

TEST(EvenSlices, do_not_overflow_at_huge_counts) {
  const std::vector<std::int64_t> counts{std::int64_t{1} << 62};
  const auto slices = even_slices(counts, 1000);
  EXPECT_EQ(slices.back().back().end, counts[0]);
}

TEST(Dissemination, reaches_all_ranks_in_logarithmic_rounds) {
  for (int ranks = 1; ranks <= 70; ++ranks) {
    std::vector<std::set<int>> known(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) known[static_cast<std::size_t>(rank)].insert(rank);
    for (int round = 0; round < dissemination_rounds(ranks); ++round) {
      const auto before = known;
      for (int rank = 0; rank < ranks; ++rank) {
        const int source = dissemination_source(rank, round, ranks);
        ASSERT_EQ(dissemination_target(source, round, ranks), rank);
        ASSERT_NE(source, rank);
        known[static_cast<std::size_t>(rank)].insert(before[static_cast<std::size_t>(source)].begin(),
                                                     before[static_cast<std::size_t>(source)].end());
      }
    }
    for (const auto& ranks_known : known) EXPECT_EQ(ranks_known.size(), static_cast<std::size_t>(ranks));
  }
}

}  // namespace
}  // namespace lockstep::detail
