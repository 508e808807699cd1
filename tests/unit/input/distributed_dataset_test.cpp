// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/distributed_dataset.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/input/scale.hpp>

#include "input/numbers.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace lockstep {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

/// The batches of all replicas of a layout, in replica order.
Steps steps_of(const Dataset<Tensor>& dataset, const ReplicaLayout& layout, const InputOptions& options = {}) {
  Steps steps;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    std::size_t step = 0;
    for (const PerReplica<Tensor>& batch : input::distribute(dataset, {layout, rank}, options)) {
      EXPECT_EQ(batch.size(), layout.count(rank));
      EXPECT_EQ(batch.first_replica(), layout.first(rank));
      if (rank == 0) steps.emplace_back();
      for (int i = 0; i < batch.size(); ++i) steps.at(step).push_back(numbers(batch.component(i)));
      ++step;
    }
    EXPECT_EQ(step, steps.size()) << "rank " << rank << " makes another number of steps";
  }
  return steps;
}

const std::vector<std::vector<int>> layouts_of_4{{4}, {2, 2}, {2, 1, 1}, {1, 1, 1, 1}, {1, 3}};
constexpr InputOptions by_ceil_slices{.split = SplitPolicy::ceil_slices};

TEST(DistributedDataset, gives_replica_r_chunk_r_of_each_global_batch) {
  EXPECT_EQ(steps_of(Dataset<Tensor>::range(10).batch(5), ReplicaLayout({2, 1})),
            (Steps{{{0, 1}, {2, 3}, {4}}, {{5, 6}, {7, 8}, {9}}}));
  EXPECT_EQ(steps_of(Dataset<Tensor>::range(12).batch(6), ReplicaLayout({2, 2})),
            (Steps{{{0, 1}, {2, 3}, {4}, {5}}, {{6, 7}, {8, 9}, {10}, {11}}}));
}

TEST(DistributedDataset, cuts_a_short_last_batch_by_its_policy) {
  const auto dataset = Dataset<Tensor>::range(15).batch(6);
  EXPECT_EQ(steps_of(dataset, ReplicaLayout({2, 2})),
            (Steps{{{0, 1}, {2, 3}, {4}, {5}}, {{6, 7}, {8, 9}, {10}, {11}}, {{12, 13}, {14}, {}, {}}}));
  EXPECT_EQ(steps_of(dataset, ReplicaLayout({2, 2}), by_ceil_slices),
            (Steps{{{0, 1}, {2, 3}, {4, 5}, {}}, {{6, 7}, {8, 9}, {10, 11}, {}}, {{12}, {13}, {14}, {}}}));
}

TEST(DistributedDataset, with_fewer_rows_than_replicas_gives_empty_batches_that_keep_their_inner_shape) {
  EXPECT_EQ(steps_of(Dataset<Tensor>::range(3).batch(1), ReplicaLayout({2})), (Steps{{{0}, {}}, {{1}, {}}, {{2}, {}}}));
  EXPECT_EQ(steps_of(Dataset<Tensor>::range(4).batch(4), ReplicaLayout({5}), by_ceil_slices),
            (Steps{{{0}, {1}, {2}, {3}, {}}}));
  const Dataset<Tensor> rows = Dataset<Tensor>::from_tensor_slices(Tensor(DType::f32, Shape{3, 2}));
  const auto as_stream = rows.prefetch(1);
  for (const auto& dataset : {rows.batch(2), as_stream.batch(2)}) {
    auto iterator = input::distribute(dataset, {ReplicaLayout({2}), 0}).iterate();
    static_cast<void>(iterator.get_next());
    const auto last = iterator.get_next();
    EXPECT_EQ(last.component(0).shape(), (Shape{1, 2}));
    EXPECT_EQ(last.component(1).shape(), (Shape{0, 2}));
  }
}

TEST(DistributedDataset, is_the_same_on_every_layout) {
  for (const bool random_access : {true, false}) {
    for (const InputOptions& options : {InputOptions{}, by_ceil_slices, InputOptions{.prefetch_batches = 0}}) {
      const auto source = random_access ? Dataset<Tensor>::range(101) : stream(101);
      const auto dataset = source.shuffle(11).repeat(2).batch(10).prefetch(1);
      const Steps expected = steps_of(dataset, ReplicaLayout({4}), options);
      EXPECT_EQ(expected.size(), 21U);
      Numbers seen;
      for (const auto& step : expected) {
        for (const auto& rows : step) seen.insert(seen.end(), rows.begin(), rows.end());
      }
      std::sort(seen.begin(), seen.end());
      Numbers twice(202);
      for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = static_cast<std::int64_t>(i / 2);
      EXPECT_EQ(seen, twice);
      for (const auto& layout : layouts_of_4) {
        // each call of steps_of distributes a new dataset, so pass numbers are equal
        EXPECT_EQ(steps_of(dataset, ReplicaLayout(layout), options), expected) << to_string(ReplicaLayout(layout));
      }
    }
  }
}

TEST(DistributedDataset, reads_only_the_rows_of_its_replicas) {
  for (const int depth : {0, 3}) {
    std::set<std::int64_t> read;  // by one thread, which ends with the loop
    auto dataset = Dataset<Tensor>::range(12)
                       .map([&](const Tensor& element) {
                         read.insert(element.elements<std::int64_t>()[0]);
                         return element;
                       })
                       .batch(6);
    if (depth != 0) dataset = dataset.prefetch(2);  // an iterator prefetches in any case
    for (const auto& batch : input::distribute(dataset, {ReplicaLayout({2, 1}), 1}, {.prefetch_batches = depth})) {
      static_cast<void>(batch);
    }
    EXPECT_EQ(read, (std::set<std::int64_t>{4, 5, 10, 11}));
  }
  std::int64_t transformed = 0;
  const auto rowwise = Dataset<Tensor>::range(12).batch(6).map_rows([&](Tensor rows) {
    transformed += rows.shape()[0];
    return rows;
  });
  for (const auto& batch : input::distribute(rowwise, {ReplicaLayout({2, 1}), 1}, {.prefetch_batches = 0}))
    static_cast<void>(batch);
  EXPECT_EQ(transformed, 4);
}

TEST(DistributedDataset, restarts_with_each_iteration_in_the_order_of_the_next_pass) {
  const auto plain = input::distribute(Dataset<Tensor>::range(4).batch(2), {ReplicaLayout({2}), 0});
  for (int pass = 0; pass < 2; ++pass) {
    Numbers seen;
    for (const auto& batch : plain) seen.push_back(numbers(batch.component(1))[0]);
    EXPECT_EQ(seen, (Numbers{1, 3}));
  }
  const auto shuffled = Dataset<Tensor>::range(40).shuffle(5).batch(40);
  const auto distributed = input::distribute(shuffled, {ReplicaLayout({1}), 0});
  const Numbers first = numbers(distributed.iterate().get_next().value());
  const Numbers second = numbers(distributed.iterate().get_next().value());
  EXPECT_NE(first, second);
  EXPECT_EQ(numbers(distributed.iterate(0).get_next().value()), first);
  EXPECT_EQ(first, numbers(*shuffled.iterate(0).get_next_as_optional()));
  EXPECT_EQ(second, numbers(*shuffled.iterate(1).get_next_as_optional()));
}

TEST(DistributedDataset, continues_at_a_position_also_on_another_layout) {
  for (const bool random_access : {true, false}) {
    const auto dataset = (random_access ? Dataset<Tensor>::range(23) : stream(23)).shuffle(3).batch(4);
    const auto whole = input::distribute(dataset, {ReplicaLayout({3}), 0});
    static_cast<void>(whole.iterate());  // so that the next iterator has the order of another pass
    auto first = whole.iterate();
    EXPECT_EQ(first.position(), (ReadingPosition{1, 0}));
    for (int step = 0; step < 4; ++step) static_cast<void>(first.get_next());
    const ReadingPosition position = first.position();
    EXPECT_EQ(position, (ReadingPosition{1, 4}));

    const auto part = input::distribute(dataset, {ReplicaLayout({2, 1}), 1});
    auto second = part.resume(position);
    EXPECT_EQ(second.position(), position);
    while (const auto expected = first.get_next_as_optional())
      EXPECT_EQ(numbers(second.get_next().component(0)), numbers(expected->component(2)));
    EXPECT_FALSE(second.get_next_as_optional());
    EXPECT_EQ(second.position(), (ReadingPosition{1, 6}));  // the end
    EXPECT_EQ(part.iterate().position(), (ReadingPosition{2, 0}));
    for (const std::uint64_t step : {6U, 60U}) EXPECT_FALSE(part.resume({1, step}).get_next_as_optional());
  }
}

TEST(DistributedDataset, has_independent_iterators_and_an_end) {
  const auto distributed = input::distribute(Dataset<Tensor>::range(4).batch(2), {ReplicaLayout({2}), 0});
  auto a = distributed.iterate();
  auto b = distributed.iterate();
  for (auto* iterator : {&a, &b}) EXPECT_EQ(numbers(iterator->get_next().component(0)), (Numbers{0}));
  for (auto* iterator : {&a, &b}) EXPECT_EQ(numbers(iterator->get_next().component(0)), (Numbers{2}));
  EXPECT_FALSE(a.get_next_as_optional());
  try {
    static_cast<void>(a.get_next());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::out_of_range);
  }
}

TEST(DistributedDataset, refuses_datasets_that_it_cannot_split) {
  const auto refused = [](const Dataset<Tensor>& dataset, const InputLayout& layout, const InputOptions& options,
                          const std::string& part) {
    try {
      static_cast<void>(input::distribute(dataset, layout, options));
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_NE(error.text().find(part), std::string::npos) << error.what();
    }
  };
  const auto range = Dataset<Tensor>::range(4);
  refused(range, {ReplicaLayout({2}), 0}, {}, "batch");
  refused(range.batch(2), {ReplicaLayout({1, 1}), 2}, {}, "rank 2 is not in the layout");
  refused(range.batch(2), {ReplicaLayout({2}), 0}, {.prefetch_batches = -1}, "prefetch_batches");
}

TEST(DistributedDataset, splits_trees_leaf_by_leaf_and_whole_batch_maps_after_the_map) {
  const auto rows = Tensor::from(std::span<const std::int64_t>(Numbers{1, 2, 3, 4, 5, 6, 7, 8}), Shape{4, 2});
  const auto dataset =
      Dataset<Pair>::from_tensor_slices({rows, Tensor::from(Numbers{0, 1, 2, 3})}).batch(4).map([](const Pair& batch) {
        EXPECT_EQ(std::get<0>(batch).shape(), (Shape{4, 2}));
        return batch;
      });
  const auto [x, y] = input::distribute(dataset, {ReplicaLayout({2}), 0}).iterate().get_next();
  EXPECT_EQ(numbers(x.component(1)), (Numbers{5, 6, 7, 8}));
  EXPECT_EQ(numbers(y.component(1)), (Numbers{2, 3}));
}

TEST(DistributedDataset, gives_aligned_batches_and_reuses_their_memory) {
  const auto images = Dataset<Tensor>::from_tensor_slices(Tensor(DType::u8, Shape{5000, 784}));
  const auto dataset =
      images.shuffle(1).batch(50).map_rows([](const Tensor& rows, const std::shared_ptr<MemoryResource>& memory) {
        return input::scale_to_float(rows, 1 / 255.F, memory);
      });
  std::set<const void*> blocks;
  for (const auto& batch : input::distribute(dataset, {ReplicaLayout({3}), 0})) {
    for (int i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.component(i).data()) % 64, 0U);
      blocks.insert(batch.component(i).data());
    }
  }
  EXPECT_LE(blocks.size(), 3U * 6U);  // of 300 batches
}

TEST(DistributedDataset, does_not_reuse_the_memory_of_batches_in_use) {
  std::vector<PerReplica<Tensor>> held;
  for (const auto& batch : input::distribute(Dataset<Tensor>::range(400).batch(4), {ReplicaLayout({2}), 0}))
    held.push_back(batch);
  ASSERT_EQ(held.size(), 100U);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(numbers(held[i].component(1)),
              (Numbers{static_cast<std::int64_t>(4 * i + 2), static_cast<std::int64_t>(4 * i + 3)}));
  }
}

TEST(DistributedDataset, rethrows_exceptions_of_reading_and_then_ends) {
  const auto dataset = Dataset<Tensor>::range(6).batch(2).map_rows([](const Tensor& rows) {
    if (numbers(rows)[0] >= 2) throw std::runtime_error("row 2 is bad");
    return rows;
  });
  for (const int depth : {0, 1, 4}) {
    auto iterator = input::distribute(dataset, {ReplicaLayout({1}), 0}, {.prefetch_batches = depth}).iterate();
    EXPECT_TRUE(iterator.get_next_as_optional());
    EXPECT_THROW(static_cast<void>(iterator.get_next_as_optional()), std::runtime_error);
    EXPECT_FALSE(iterator.get_next_as_optional());
  }
}

TEST(DistributedDataset, can_be_destroyed_at_any_step) {
  const auto distributed = input::distribute(stream(1'000'000).batch(8).repeat(), {ReplicaLayout({2}), 0});
  for (int leave = 0; leave < 20; ++leave) {
    int step = 0;
    for (const auto& batch : distributed) {
      static_cast<void>(batch);
      if (step++ == leave) break;
    }
  }
}

TEST(DistributedDataset, counts_the_seconds_that_its_callers_wait) {
  using namespace std::chrono_literals;
  const auto slow = Dataset<Tensor>::range(8).batch(2).map([](const Tensor& batch) {
    std::this_thread::sleep_for(4ms);
    return batch;
  });
  for (const int depth : {0, 2}) {
    const auto distributed = input::distribute(slow, {ReplicaLayout({1}), 0}, {.prefetch_batches = depth});
    double sum = 0;
    for (int pass = 0; pass < 2; ++pass) {
      auto iterator = distributed.iterate();
      while (iterator.get_next_as_optional()) {}
      if (virtual_time::is_active() && !virtual_time::has_delays()) {
        EXPECT_NEAR(iterator.wait_seconds(), 0.016, 1e-5);
      } else if (depth == 0) {
        EXPECT_GE(iterator.wait_seconds(), 0.016);
      }
      sum += iterator.wait_seconds();
    }
    EXPECT_NEAR(distributed.wait_seconds(), sum, 1e-5);
  }
}

TEST(DistributedDataset, of_random_sizes_gives_every_row_once_in_equally_many_steps) {
  std::uint64_t state = 1;
  const auto below = [&state](std::uint64_t bound) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int64_t>((state >> 33U) % bound);
  };
  for (int i = 0; i < 40; ++i) {
    const std::int64_t rows = below(60);
    const std::int64_t batch = 1 + below(20);
    const auto dataset = (i % 2 == 0 ? Dataset<Tensor>::range(rows) : stream(rows)).batch(batch);
    const Steps steps =
        steps_of(dataset, ReplicaLayout(layouts_of_4[static_cast<std::size_t>(i) % layouts_of_4.size()]),
                 i % 3 == 0 ? by_ceil_slices : InputOptions{});
    Numbers seen;
    for (const auto& step : steps) {
      for (const auto& part : step) seen.insert(seen.end(), part.begin(), part.end());
    }
    Numbers expected(static_cast<std::size_t>(rows));
    std::iota(expected.begin(), expected.end(), std::int64_t{0});
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(static_cast<std::int64_t>(steps.size()), (rows + batch - 1) / batch);
  }
}

}  // namespace
}  // namespace lockstep
