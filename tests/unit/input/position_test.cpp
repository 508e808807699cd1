// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/distributed_dataset.hpp>

#include "input/numbers.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

namespace lockstep::test {
namespace {

/// The remaining batches of an iterator, one list for each step and replica.
std::vector<Numbers> rest_of(DistributedIterator<Tensor>& iterator) {
  std::vector<Numbers> rest;
  while (const auto batch = iterator.get_next_as_optional()) {
    for (int i = 0; i < batch->size(); ++i) rest.push_back(numbers(batch->component(i)));
  }
  return rest;
}

TEST(ReadingPosition, counts_the_steps_that_were_returned_and_not_those_read_ahead) {
  const auto dataset = input::distribute(Dataset<Tensor>::range(20).batch(2), {ReplicaLayout({2}), 0});
  auto iterator = dataset.iterate();
  EXPECT_EQ(iterator.position(), (ReadingPosition{0, 0}));
  static_cast<void>(iterator.get_next());
  static_cast<void>(iterator.get_next());
  EXPECT_EQ(iterator.position(), (ReadingPosition{0, 2}));
  static_cast<void>(rest_of(iterator));
  EXPECT_EQ(iterator.position(), (ReadingPosition{0, 10}));
  EXPECT_EQ(dataset.iterate().position(), (ReadingPosition{1, 0}));
}

TEST(ReadingPosition, lets_another_iterator_continue_there) {
  for (const bool random_access : {true, false}) {
    for (const int depth : {0, 3}) {
      const auto source = (random_access ? Dataset<Tensor>::range(31) : stream(31)).shuffle(5).repeat(2).batch(4);
      const InputLayout layout{ReplicaLayout({2}), 0};
      const auto dataset = input::distribute(source, layout, {.prefetch_batches = depth});
      for (const int steps : {0, 1, 9, 16, 20}) {
        auto first = dataset.iterate(3);
        for (int i = 0; i < steps; ++i) static_cast<void>(first.get_next_as_optional());
        // as in a restarted program
        const auto again = input::distribute(source, layout, {.prefetch_batches = depth});
        auto second = again.resume(first.position());
        EXPECT_EQ(second.position(), first.position());
        EXPECT_EQ(rest_of(second), rest_of(first)) << steps;
        EXPECT_EQ(again.iterate().position().pass, 4U) << "later passes are numbered on";
      }
    }
  }
}

TEST(ReadingPosition, can_be_sought) {
  const auto dataset = input::distribute(Dataset<Tensor>::range(12).batch(2), {ReplicaLayout({1}), 0});
  auto iterator = dataset.iterate();
  static_cast<void>(rest_of(iterator));
  iterator.seek({0, 5});
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{10, 11}}));
  iterator.seek({0, 7});
  EXPECT_TRUE(rest_of(iterator).empty()) << "behind the end";
}

TEST(ReadingPosition, skips_without_reading_with_random_access) {
  std::set<std::int64_t> read;  // by one thread
  const auto dataset = input::distribute(Dataset<Tensor>::range(12)
                                             .map([&read](const Tensor& row) {
                                               read.insert(row.elements<std::int64_t>().front());
                                               return row;
                                             })
                                             .batch(3),
                                         {ReplicaLayout({1}), 0}, {.prefetch_batches = 0});
  auto iterator = dataset.resume({0, 3});
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{9, 10, 11}}));
  EXPECT_EQ(read, (std::set<std::int64_t>{9, 10, 11}));
}

TEST(ReadingPosition, holds_for_datasets_from_a_function) {
  for (const bool known_length : {true, false}) {
    on_ranks({2, 1}, [&](Communicator& communicator) {
      const auto make = [&](const InputContext& context) {
        const std::int64_t count = context.input_pipeline_id() == 0 ? 16 : 4;
        return (known_length ? Dataset<Tensor>::range(count) : stream(count)).batch(2);
      };
      const auto dataset = input::distribute_from_function(make, communicator);
      for (const int steps : {0, 1, 2, 3, 4}) {
        auto first = dataset.iterate(0);
        for (int i = 0; i < steps; ++i) static_cast<void>(first.get_next_as_optional());
        auto second = first.at(first.position());
        EXPECT_EQ(rest_of(second), rest_of(first)) << steps;
      }
    });
  }
}

}  // namespace
}  // namespace lockstep::test
