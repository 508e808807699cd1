// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/split.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::input {
namespace {

using Counts = std::vector<std::int64_t>;

Counts counts(SplitPolicy policy, std::int64_t full, std::int64_t rows, int replicas) {
  Counts result;
  std::int64_t next = 0;
  for (int replica = 0; replica < replicas; ++replica) {
    const RowRange chunk = chunk_of(policy, full, rows, replicas, replica);
    EXPECT_EQ(chunk.first, next);
    EXPECT_GE(chunk.count, 0);
    next += chunk.count;
    result.push_back(chunk.count);
  }
  EXPECT_EQ(next, rows);
  return result;
}

TEST(Split, into_fixed_chunks_keeps_the_sizes_of_a_full_batch) {
  EXPECT_EQ(counts(SplitPolicy::fixed_chunks, 6, 6, 4), (Counts{2, 2, 1, 1}));
  EXPECT_EQ(counts(SplitPolicy::fixed_chunks, 6, 3, 4), (Counts{2, 1, 0, 0}));
  EXPECT_EQ(counts(SplitPolicy::fixed_chunks, 7, 3, 3), (Counts{3, 0, 0}));
  EXPECT_EQ(counts(SplitPolicy::fixed_chunks, 4, 2, 2), (Counts{2, 0}));
  EXPECT_EQ(counts(SplitPolicy::fixed_chunks, 1, 1, 2), (Counts{1, 0}));
  EXPECT_EQ(counts(SplitPolicy::fixed_chunks, 2, 6, 4), (Counts{2, 2, 1, 1}));
}

TEST(Split, into_slices_divides_each_batch_by_its_own_size) {
  EXPECT_EQ(counts(SplitPolicy::ceil_slices, 4, 4, 3), (Counts{2, 2, 0}));
  EXPECT_EQ(counts(SplitPolicy::ceil_slices, 4, 2, 2), (Counts{1, 1}));
  EXPECT_EQ(counts(SplitPolicy::ceil_slices, 4, 4, 5), (Counts{1, 1, 1, 1, 0}));
  EXPECT_EQ(counts(SplitPolicy::ceil_slices, 7, 3, 3), (Counts{1, 1, 1}));
}

TEST(Split, covers_every_batch_with_chunks_that_differ_by_at_most_one) {
  for (int replicas = 1; replicas <= 9; ++replicas) {
    for (std::int64_t full = 1; full <= 30; ++full) {
      const Counts sizes = counts(SplitPolicy::fixed_chunks, full, full, replicas);
      EXPECT_LE(sizes.front() - sizes.back(), 1);
      for (std::int64_t rows = 0; rows <= full; ++rows) {
        static_cast<void>(counts(SplitPolicy::fixed_chunks, full, rows, replicas));
        static_cast<void>(counts(SplitPolicy::ceil_slices, full, rows, replicas));
      }
    }
  }
}

TEST(Split, of_a_stream_cycles_through_the_chunks_of_a_full_batch_from_the_ranks_first) {
  EXPECT_EQ(stream_chunks(7, 4, 0), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(stream_chunks(7, 4, 2), (Counts{2, 1, 2, 2}));
  EXPECT_EQ(stream_chunks(1, 2, 1), (Counts{0, 1}));
  for (const Counts& sizes : {Counts{2, 2, 2, 1}, Counts{2, 1, 2, 2}, Counts{0, 1}, Counts{1, 0, 0}, Counts{3}}) {
    for (std::int64_t rows = 0; rows < 30; ++rows) {
      std::int64_t chunks = 0;
      for (std::int64_t left = rows; left > 0; ++chunks) left -= sizes[static_cast<std::size_t>(chunks) % sizes.size()];
      EXPECT_EQ(chunks_of_stream(sizes, rows), chunks);
    }
  }
}

}  // namespace
}  // namespace lockstep::input
