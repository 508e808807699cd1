// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sharding by files, and by the shard hint of a dataset.

#include <lockstep/lockstep.hpp>

#include "input/number_files.hpp"
#include "input/numbers.hpp"
#include "support/expect_error.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using test::expect_error;
using test::NumberFiles;

constexpr InputOptions by_file{.auto_shard_policy = AutoShardPolicy::file};

TEST(FileSharding, gives_rank_i_files_i_and_so_on) {
  const NumberFiles files({{0, 1, 2}, {10, 11, 12}, {20}});
  for (const auto& source : {files.lines(), files.records()}) {
    const Steps expected{{{0, 1}, {10, 11}}, {{2, 20}, {12}}};
    EXPECT_EQ(steps_of({1, 1}, source.batch(4), by_file), expected);
    EXPECT_EQ(steps_of({1, 1}, source.batch(4), {.auto_shard_policy = AutoShardPolicy::file_or_data}), expected);
    EXPECT_EQ(steps_of({1, 1}, source.batch(4),
                       {.split = SplitPolicy::ceil_slices, .auto_shard_policy = AutoShardPolicy::file}),
              (Steps{{{0, 1}, {10, 11}}, {{2, 20}, {12}}}));
    // the default policy ignores files
    EXPECT_EQ(steps_of({1, 1}, source.batch(4), {}), (Steps{{{0, 1}, {2, 10}}, {{11, 12}, {20}}}));
  }
}

TEST(FileSharding, shuffles_what_a_rank_reads) {
  Numbers numbers(40);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  const NumberFiles files({numbers, {100, 101, 102}});
  for (const auto& source : {files.lines(), files.records()}) {
    Numbers seen;
    for (const auto& step : steps_of({1, 1}, source.shuffle(7).batch(6), by_file)) {
      seen.insert(seen.end(), step[0].begin(), step[0].end());
      for (const std::int64_t number : step[1]) EXPECT_GE(number, 100);
    }
    EXPECT_NE(seen, numbers);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, numbers);
  }
}

TEST(FileSharding, requires_a_file_for_each_rank_with_an_error_on_all) {
  const NumberFiles files({{0, 1, 2, 3}});
  test::on_ranks({1, 1}, [&](Communicator& communicator) {
    expect_error(Code::invalid_argument,
                 {"FILE requires at least one file for each rank (2 ranks)",
                  "the dataset reads 1 (the first is " + files.text().front()},
                 [&] {
                   static_cast<void>(input::distribute(
                       files.lines().batch(2), {communicator.layout(), communicator.rank(), communicator}, by_file));
                 });
  });
}

TEST(FileSharding, is_described_file_by_file) {
  const NumberFiles files({{0}, {1}, {2}});
  test::on_ranks({1, 1}, [&](Communicator& communicator) {
    const auto text =
        input::distribute(files.lines().batch(2), {communicator.layout(), communicator.rank(), communicator}, by_file)
            .describe();
    EXPECT_EQ(text,
              "dataset: an unknown number of global batches of 2 rows; auto_shard_policy FILE, split FIXED_CHUNKS\n"
              "  rank 0, replica 0: reads " +
                  files.text()[0] + ", " + files.text()[2] + "\n  rank 1, replica 1: reads " + files.text()[1] +
                  "\n  chunks have the sizes that they have in a full batch of 2 rows\n"
                  "  batches depend on the number of ranks: on another number, replicas get different batches\n");
  });
}

TEST(HintSharding, replaces_the_hint_in_the_dataset_by_each_ranks_shard) {
  const auto dataset = Dataset<Tensor>::range(7).shard(shard_hint, shard_hint).batch(4);
  EXPECT_EQ(steps_of({1, 1}, dataset, {.auto_shard_policy = AutoShardPolicy::hint}),
            (Steps{{{0, 2}, {1, 3}}, {{4, 6}, {5}}}));
}

}  // namespace
}  // namespace lockstep
