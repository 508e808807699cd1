// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The division of batches whose number of rows the construction of the dataset does not determine.

#include <lockstep/input/distributed_dataset.hpp>

#include <lockstep/base/error.hpp>

#include "input/numbers.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using test::expect_error;

/// Batches of consecutive numbers from 0, with these numbers of rows, from a generator.
Dataset<Tensor> generated_batches(const std::vector<std::int64_t>& rows) {
  return Dataset<Tensor>::from_generator([rows] {
    return [rows, next = std::int64_t{0}, i = std::size_t{0}]() mutable -> std::optional<Tensor> {
      if (i == rows.size()) return std::nullopt;
      Numbers batch;
      for (std::int64_t k = 0; k < rows[i]; ++k) batch.push_back(next++);
      ++i;
      return Tensor::from(batch);
    };
  });
}

/// A map that keeps the first `rows` rows of each batch.
auto first_rows(std::size_t rows) {
  return [rows](const Tensor& batch) {
    Numbers kept = numbers(batch);
    kept.resize(std::min(rows, kept.size()));
    return Tensor::from(kept);
  };
}

Tensor same(const Tensor& batch) { return batch; }

/// The steps of two replicas. Checks that they are the same on one and on two ranks, with and without reading ahead,
/// and when reading is resumed at any step.
Steps steps_of_two(const Dataset<Tensor>& dataset) {
  Steps steps = steps_of({2}, dataset, {});
  EXPECT_EQ(steps_of({1, 1}, dataset, {}), steps);
  EXPECT_EQ(steps_of({1, 1}, dataset, {.prefetch_batches = 0}), steps);
  for (std::size_t first = 0; first < steps.size(); ++first) {
    const auto distributed = input::distribute(dataset, {ReplicaLayout({1, 1}), 1});
    auto iterator = distributed.resume({0, first});
    for (std::size_t step = first; step < steps.size(); ++step)
      EXPECT_EQ(numbers(iterator.get_next().component(0)), steps[step][1]) << "resumed at " << first;
    EXPECT_FALSE(iterator.get_next_as_optional());
  }
  return steps;
}

TEST(DividedBatches, of_a_map_that_keeps_the_rows_have_the_chunks_of_a_full_batch) {
  for (const auto& source : {Dataset<Tensor>::range(14), stream(14)}) {
    const auto batches = source.batch(8);
    const Steps expected{{{0, 1, 2, 3}, {4, 5, 6, 7}}, {{8, 9, 10, 11}, {12, 13}}};
    EXPECT_EQ(steps_of_two(batches), expected);
    EXPECT_EQ(steps_of_two(batches.map(same)), expected);
    EXPECT_EQ(steps_of_two(batches.map(same, {.num_parallel_calls = 3})), expected);
    EXPECT_EQ(steps_of_two(batches.map(same).prefetch(2).cache().map(same).take(2)), expected);
    const auto all = [](const Tensor&) { return true; };
    EXPECT_EQ(steps_of_two(batches.map(same).filter(all).concatenate(batches.take(0))), expected);
    EXPECT_EQ(steps_of_two(batches.map_rows(same)), expected);
    // a short batch in the middle
    Steps twice = expected;
    twice.insert(twice.end(), expected.begin(), expected.end());
    EXPECT_EQ(steps_of_two(batches.map(same).repeat(2)), twice);
    EXPECT_EQ(steps_of_two(batches.repeat(2)), twice);
  }
}

TEST(DividedBatches, of_a_map_that_changes_the_rows_are_divided_by_their_own_rows) {
  for (const int threads : {1, 3}) {
    const MapOptions parallel{.num_parallel_calls = threads};
    const auto batches = Dataset<Tensor>::range(20).batch(8);
    // the last batch has 4 rows before the map too
    const Steps halves{{{0, 1}, {2, 3}}, {{8, 9}, {10, 11}}, {{16, 17}, {18, 19}}};
    EXPECT_EQ(steps_of_two(batches.map(first_rows(4), parallel)), halves);
    EXPECT_EQ(steps_of_two(batches.map(first_rows(4), parallel).prefetch(1).cache()), halves);
    EXPECT_EQ(steps_of_two(batches.map(first_rows(4), parallel).map(same)), halves);
    EXPECT_EQ(steps_of_two(batches.map(first_rows(3), parallel)),
              (Steps{{{0, 1}, {2}}, {{8, 9}, {10}}, {{16, 17}, {18}}}));
    const auto doubled = [](const Tensor& batch) {
      Numbers rows = numbers(batch);
      for (const std::int64_t row : numbers(batch)) rows.push_back(-row);
      return Tensor::from(rows);
    };
    EXPECT_EQ(steps_of_two(Dataset<Tensor>::range(1, 4).batch(2).map(doubled, parallel)),
              (Steps{{{1, 2}, {-1, -2}}, {{3}, {-3}}}));
  }
}

TEST(DividedBatches, of_datasets_of_several_batch_sizes_are_divided_by_the_size_of_each) {
  const auto four = Dataset<Tensor>::range(7).batch(4);
  const auto six = Dataset<Tensor>::range(10, 19).batch(6);
  const Steps both{{{0, 1}, {2, 3}}, {{4, 5}, {6}}, {{10, 11, 12}, {13, 14, 15}}, {{16, 17, 18}, {}}};
  EXPECT_EQ(steps_of_two(four.concatenate(six)), both);
  EXPECT_EQ(steps_of_two(Dataset<Tensor>::range(2).interleave(
                [=](const Tensor& which) { return numbers(which)[0] == 0 ? four : six; })),
            both);
  EXPECT_EQ(steps_of_two(Dataset<Tensor>::range(2).interleave(
                [=](const Tensor& which) { return numbers(which)[0] == 0 ? four : six; }, {.cycle_length = 2})),
            (Steps{both[0], both[2], both[1], both[3]}));
}

TEST(DividedBatches, of_a_generator_are_divided_by_their_own_rows) {
  EXPECT_EQ(steps_of_two(generated_batches({4, 3, 1, 6})),
            (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6}}, {{7}, {}}, {{8, 9, 10}, {11, 12, 13}}}));
  EXPECT_EQ(steps_of_two(generated_batches({4, 4}).map_rows(same).shuffle(1, {.buffer_elements = 1})),
            (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}));
}

TEST(DividedBatches, in_streams_give_chunks_of_the_batch_in_which_the_chunk_begins) {
  constexpr InputOptions off{.auto_shard_policy = AutoShardPolicy::off};
  const auto twice = [](const Steps& steps) {  // both ranks read everything
    Steps result;
    for (const auto& step : steps) result.push_back({step[0], step[0]});
    return result;
  };
  const auto batches = Dataset<Tensor>::range(14).batch(8);
  EXPECT_EQ(steps_of({1, 1}, batches.map(same), off), steps_of({1, 1}, batches, off));
  EXPECT_EQ(steps_of({1, 1}, batches.map(same).repeat(2), off), steps_of({1, 1}, batches.repeat(2), off));
  EXPECT_EQ(steps_of({1, 1}, batches.map(first_rows(4)), off), twice({{{0, 1}}, {{2, 3}}, {{8, 9}}, {{10, 11}}}));
  EXPECT_EQ(steps_of({1, 1}, generated_batches({2, 4}), off), twice({{{0}}, {{1}}, {{2, 3}}, {{4, 5}}}));
  const auto alone = [&](const Dataset<Tensor>& dataset) { return steps_of({1}, dataset, off); };
  EXPECT_EQ(alone(stream(2)), (Steps{{{0}}, {{1}}}));
  EXPECT_EQ(alone(generated_batches({2, 3})), (Steps{{{0, 1}}, {{2, 3, 4}}}));
}

TEST(DividedBatches, are_passed_on_as_they_are_to_the_only_replica) {
  const auto last = [](const Tensor& batch) { return Tensor::scalar(numbers(batch).back()); };
  for (const auto& dataset : {Dataset<Tensor>::range(4).batch(2).map(last), stream(2), generated_batches({2, 3})}) {
    std::vector<Numbers> expected;
    for (const Tensor& element : dataset) expected.push_back(numbers(element));
    std::vector<Numbers> found;
    for (const auto& batch : input::distribute(dataset, {ReplicaLayout({1}), 0}))
      found.push_back(numbers(batch.value()));
    EXPECT_EQ(found, expected);
  }
}

TEST(DividedBatches, of_elements_that_are_not_batches_are_refused) {
  const InputLayout two{ReplicaLayout({2}), 0};
  const auto read = [&](const Dataset<Tensor>& dataset, AutoShardPolicy policy = AutoShardPolicy::automatic) {
    static_cast<void>(input::distribute(dataset, two, {.auto_shard_policy = policy}).iterate().get_next());
  };
  const auto rows = Dataset<Tensor>::from_tensor_slices(Tensor(DType::f32, Shape{4, 6}));
  for (const auto policy : {AutoShardPolicy::automatic, AutoShardPolicy::data, AutoShardPolicy::off}) {
    for (const auto& dataset : {rows, rows.map(same), rows.batch(2).unbatch(), rows.concatenate(rows.batch(2)),
                                Dataset<Tensor>::range(1).interleave([&](const Tensor&) { return rows; })}) {
      expect_error(Code::invalid_argument, {"not batched", "2 replicas", "call batch(global_batch_size)"},
                   [&] { read(dataset, policy); });
    }
    for (const auto& dataset :
         {stream(4), Dataset<Tensor>::range(4).batch(2).map([](const Tensor&) { return Tensor::scalar(1); })}) {
      expect_error(Code::invalid_argument, {"tensor 0 of an element is a scalar", "call batch first"},
                   [&] { read(dataset, policy); });
    }
  }
  const auto pairs = Dataset<Tensor>::range(4).batch(4).map(
      [](const Tensor& batch) { return std::pair(batch, Tensor::from(Numbers{1, 2, 3})); });
  expect_error(Code::invalid_argument, {"tensor 0 has 4 rows but tensor 1 has 3"},
               [&] { static_cast<void>(input::distribute(pairs, two).iterate().get_next()); });
}

TEST(DividedBatches, have_a_batch_size_only_if_the_construction_determines_it) {
  const auto batches = Dataset<Tensor>::range(12).batch(4);
  const auto all = [](const Tensor&) { return true; };
  for (const auto& dataset :
       {batches.prefetch(1), batches.shuffle(1), batches.cache(), batches.repeat(2), batches.take(1).skip(0),
        batches.filter(all), batches.map_rows(same), batches.shard(2, 0), batches.concatenate(batches)}) {
    EXPECT_EQ(dataset.batch_size(), 4);
  }
  for (const auto& dataset :
       {batches.map(same), batches.map(same, {.num_parallel_calls = 2}), batches.concatenate(batches.map(same)),
        batches.concatenate(Dataset<Tensor>::range(6).batch(6)), batches.unbatch(), generated_batches({4}),
        Dataset<Tensor>::range(1).interleave([=](const Tensor&) { return batches; })}) {
    EXPECT_EQ(dataset.batch_size(), std::nullopt);
  }
}

TEST(DividedBatches, are_described_with_the_rule_of_their_division) {
  const auto text = [](const Dataset<Tensor>& dataset, SplitPolicy split = SplitPolicy::fixed_chunks) {
    return input::distribute(dataset, {ReplicaLayout({2, 1}), 0}, {.split = split}).describe();
  };
  const auto batches = Dataset<Tensor>::range(14).batch(8);
  EXPECT_NE(text(batches).find("  chunks have the sizes that they have in a full batch of 8 rows\n"),
            std::string::npos);
  EXPECT_EQ(text(batches.map(same)),
            "dataset: 2 global batches; auto_shard_policy AUTO, split FIXED_CHUNKS\n"
            "  rank 0, replicas 0 to 1: reads everything and keeps chunks 0 to 1 of each batch\n"
            "  rank 1, replica 2: reads everything and keeps chunk 2 of each batch\n"
            "  chunks have the sizes that they have in a full batch, as long as the batches have the number of rows "
            "that batch() gave to them; otherwise each batch is divided by its own number of rows\n"
            "  replica r gets chunk r of each batch, on any layout of 3 replicas\n");
  EXPECT_NE(text(batches.concatenate(batches.unbatch().batch(6))).find("otherwise each batch is divided by its own"),
            std::string::npos);
  EXPECT_NE(text(batches, SplitPolicy::ceil_slices).find("each batch is divided by its own number of rows\n"),
            std::string::npos);
}

TEST(DividedBatches, of_a_parallel_map_have_no_static_number_of_rows) {
  const auto full = Dataset<Tensor>::range(8).batch(4, {.drop_remainder = true});
  for (const int threads : {1, 2}) {
    const auto mapped = full.map(first_rows(2), {.num_parallel_calls = threads});
    const auto spec = input::distribute(mapped, {ReplicaLayout({2}), 0}).element_spec();
    EXPECT_EQ(to_string(spec.component(0)), "i64[?]");
  }
}

}  // namespace
}  // namespace lockstep
