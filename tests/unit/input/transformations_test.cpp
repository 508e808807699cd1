// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/dataset.hpp>
#include <lockstep/input/records.hpp>

#include "input/files.hpp"
#include "input/numbers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

namespace lockstep {
namespace {

std::int64_t number(const Tensor& scalar) { return scalar.elements<std::int64_t>().front(); }

Tensor times(const Tensor& element, std::int64_t factor) {
  Tensor result = element.clone();
  for (std::int64_t& value : result.elements<std::int64_t>()) value *= factor;
  return result;
}

/// Every test runs with random access and with streams, which must behave alike.
class Transformations : public testing::TestWithParam<bool> {
 protected:
  static Dataset<Tensor> range(std::int64_t count) {
    return GetParam() ? Dataset<Tensor>::range(count) : stream(count);
  }
};
INSTANTIATE_TEST_SUITE_P(Dataset, Transformations, testing::Bool(),
                         [](const auto& source) { return std::string(source.param ? "random_access" : "stream"); });

TEST_P(Transformations, filter_keeps_the_elements_that_the_function_accepts) {
  const auto odd = [](const Tensor& element) { return number(element) % 2 == 1; };
  EXPECT_EQ(flat(range(7).filter(odd)), (Numbers{1, 3, 5}));
  EXPECT_EQ(flat(range(7).filter(odd).batch(2).repeat(2)), (Numbers{1, 3, 5, 1, 3, 5}));
  EXPECT_EQ(range(7).filter(odd).cardinality(), Cardinality::unknown());
  EXPECT_EQ(flat(range(0).filter(odd)), Numbers{});
}

TEST_P(Transformations, unbatch_is_the_reverse_of_batch) {
  const auto rows = range(5).batch(2).unbatch();
  EXPECT_EQ(flat(rows), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(rows.iterate().get_next_as_optional()->shape(), Shape{});
  EXPECT_EQ(rows.batch_size(), std::nullopt);
  EXPECT_EQ(flat(range(6).batch(2).batch(2).unbatch().take(1)), (Numbers{0, 1}));
  expect_error(Code::invalid_argument, {"scalar"}, [&] { flat(range(3).unbatch()); });
}

TEST_P(Transformations, shard_takes_every_nth_element) {
  EXPECT_EQ(flat(range(10).shard(3, 0)), (Numbers{0, 3, 6, 9}));
  EXPECT_EQ(flat(range(10).shard(3, 1)), (Numbers{1, 4, 7}));
  EXPECT_EQ(flat(range(2).shard(3, 2)), Numbers{});
  EXPECT_EQ(flat(range(10).shard(2, 1).shard(2, 1)), (Numbers{3, 7}));
  EXPECT_EQ(flat(range(1000).shard(7, 3).batch(5)).size(), 143U);
  EXPECT_EQ(flat(range(3000).shard(1000, 999)), (Numbers{999, 1999, 2999}));
  const auto shuffled = range(20).shuffle(1);
  std::set<std::int64_t> seen;
  for (const std::int64_t index : {0, 1, 2}) {
    auto iterator = shuffled.shard(3, index).iterate(4);
    while (const auto element = iterator.get_next_as_optional()) seen.insert(number(*element));
  }
  EXPECT_EQ(seen.size(), 20U);
  EXPECT_EQ(range(10).shard(3, 1).cardinality(), GetParam() ? Cardinality::known(3) : Cardinality::unknown());
  expect_error(Code::invalid_argument, {"shard: count is 0"}, [&] { static_cast<void>(range(3).shard(0, 0)); });
  expect_error(Code::invalid_argument, {"shard: index is 3", "below 3"},
               [&] { static_cast<void>(range(3).shard(3, 3)); });
}

TEST_P(Transformations, a_shard_hint_must_be_replaced_before_it_is_read) {
  const auto hinted = range(6).shard(shard_hint, shard_hint);
  expect_error(Code::failed_precondition, {"shard_hint", "HINT"}, [&] { flat(hinted); });
  expect_error(Code::invalid_argument, {"shard: count is -1"},
               [&] { static_cast<void>(range(3).shard(shard_hint, 0)); });
}

TEST_P(Transformations, cache_reads_its_source_once) {
  std::atomic<int> calls = 0;
  const auto cached = range(5).map([&calls](Tensor element) { return ++calls, element; }).cache();
  EXPECT_EQ(flat(cached), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(flat(cached), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(flat(cached.batch(2).repeat(3)).size(), 15U);
  EXPECT_EQ(calls, 5);
}

TEST_P(Transformations, cache_is_not_changed_by_its_readers) {
  const auto cached = range(4).cache();
  for (int pass = 0; pass < 3; ++pass) {
    auto iterator = cached.iterate();
    for (std::int64_t i = 0; i < 4; ++i) {
      Tensor element = *iterator.get_next_as_optional();
      EXPECT_EQ(number(element), i);
      element.elements<std::int64_t>().front() = 99;
    }
  }
}

TEST_P(Transformations, cache_freezes_shuffles_before_it_but_not_after_it) {
  const auto before = range(50).shuffle(1).cache();
  const Numbers order = flat(before);
  EXPECT_EQ(flat(before), order);
  const auto after = range(50).cache().shuffle(1);
  EXPECT_NE(flat(after), flat(after));
}

TEST_P(Transformations, cache_serves_several_iterators_at_once) {
  const auto cached = range(200).map([](const Tensor& element) { return times(element, 3); }).cache();
  std::vector<std::thread> readers;
  std::vector<Numbers> results(4);
  for (Numbers& result : results) readers.emplace_back([&] { result = flat(cached); });
  for (std::thread& reader : readers) reader.join();
  for (const Numbers& result : results)
    EXPECT_EQ(result, flat(range(200).map([](const Tensor& e) { return times(e, 3); })));
}

TEST_P(Transformations, a_cache_of_a_stream_that_was_not_read_to_its_end_is_read_again) {
  const auto cached = range(5).cache();
  EXPECT_EQ(flat(cached.take(2)), (Numbers{0, 1}));
  EXPECT_EQ(flat(cached), (Numbers{0, 1, 2, 3, 4}));
}

TEST_P(Transformations, interleave_takes_turns_as_tensorflow_does) {
  // the example of tf.data.Dataset.interleave
  const auto sixfold = [](const Tensor& element) { return Dataset<Tensor>::from_tensors(element).repeat(6); };
  const auto numbers = range(6).skip(1).interleave(sixfold, {.cycle_length = 2, .block_length = 4});
  EXPECT_EQ(flat(numbers),
            (Numbers{1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(flat(range(3).interleave([](const Tensor& n) { return Dataset<Tensor>::range(number(n)); })),
            (Numbers{0, 0, 1}));
  EXPECT_EQ(flat(range(0).interleave(sixfold, {.cycle_length = 3})), Numbers{});
  for (const int length : {0, 100'000}) {
    expect_error(Code::invalid_argument, {"interleave: cycle_length is " + std::to_string(length), "in 1 to 65536"},
                 [&] { static_cast<void>(range(3).interleave(sixfold, {.cycle_length = length})); });
  }
  expect_error(Code::invalid_argument, {"interleave: block_length is 0"},
               [&] { static_cast<void>(range(3).interleave(sixfold, {.block_length = 0})); });
}

TEST_P(Transformations, concatenate_appends) {
  const auto both = range(2).concatenate(range(3).map([](const Tensor& e) { return times(e, 10); }));
  EXPECT_EQ(flat(both), (Numbers{0, 1, 0, 10, 20}));
  EXPECT_EQ(flat(both), (Numbers{0, 1, 0, 10, 20}));
  EXPECT_EQ(both.cardinality(), GetParam() ? Cardinality::known(5) : Cardinality::unknown());
  EXPECT_EQ(range(2).concatenate(Dataset<Tensor>::range(1).repeat()).cardinality(), Cardinality::infinite());
}

TEST_P(Transformations, zip_ends_with_the_shortest_dataset) {
  const auto pairs = zip(range(5), Dataset<Tensor>::range(10, 13));
  Numbers seen;
  for (const auto& [left, right] : pairs) {
    seen.push_back(number(left));
    seen.push_back(number(right));
  }
  EXPECT_EQ(seen, (Numbers{0, 10, 1, 11, 2, 12}));
  EXPECT_EQ(pairs.cardinality(), GetParam() ? Cardinality::known(3) : Cardinality::unknown());
  std::set<std::pair<std::int64_t, std::int64_t>> matched;
  for (const auto& [left, right] : pairs.shuffle(3).batch(2)) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(left.element_count()); ++i) {
      matched.emplace(left.elements<std::int64_t>()[i], right.elements<std::int64_t>()[i]);
    }
  }
  EXPECT_EQ(matched, (std::set<std::pair<std::int64_t, std::int64_t>>{{0, 10}, {1, 11}, {2, 12}}));
}

TEST_P(Transformations, zip_pairs_shuffled_elements_in_their_order) {
  const auto shuffled = range(10).shuffle(5);
  const Numbers order = flat(range(10).shuffle(5));
  std::size_t i = 0;
  for (const auto& [left, right] : zip(shuffled, Dataset<Tensor>::range(10))) {
    EXPECT_EQ(number(left), order[i]);
    EXPECT_EQ(number(right), static_cast<std::int64_t>(i++));
  }
  EXPECT_EQ(i, 10U);
}

TEST_P(Transformations, enumerate_numbers_elements) {
  std::int64_t next = 5;
  for (const auto& [index, element] : range(4).enumerate(5)) {
    EXPECT_EQ(number(index), next);
    EXPECT_EQ(number(element), next++ - 5);
  }
  EXPECT_EQ(next, 9);
  EXPECT_EQ(Dataset<Tensor>::range(3).repeat().enumerate().cardinality(), Cardinality::infinite());
}

TEST_P(Transformations, a_parallel_map_keeps_the_order) {
  const auto slow = [](const Tensor& element) {
    std::this_thread::sleep_for(std::chrono::microseconds((number(element) * 37) % 200));
    return times(element, 2);
  };
  const Numbers expected = flat(range(100).map([](const Tensor& e) { return times(e, 2); }));
  for (const int threads : {1, 2, 4}) {
    const auto mapped = range(100).map(slow, {.num_parallel_calls = threads});
    EXPECT_EQ(flat(mapped), expected);
    EXPECT_EQ(flat(mapped.batch(7)), expected);
    EXPECT_EQ(flat(mapped.take(30).batch(4).repeat(2)).size(), 60U);
    EXPECT_EQ(flat(mapped.map([](const Tensor& e) { return times(e, 1); }).batch(9)), expected);
  }
  for (const int threads : {0, 1025}) {
    expect_error(Code::invalid_argument, {"map: num_parallel_calls is " + std::to_string(threads), "in 1 to 1024"},
                 [&] { static_cast<void>(range(3).map(slow, {.num_parallel_calls = threads})); });
  }
}

TEST_P(Transformations, a_parallel_map_calls_its_function_on_several_threads) {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> threads;
  const auto note = [&](const Tensor& element) {
    std::unique_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
    changed.notify_all();
    changed.wait_for(lock, std::chrono::minutes(2), [&] { return threads.size() > 1; });
    return element;
  };
  static_cast<void>(flat(range(40).map(note, {.num_parallel_calls = 4})));
  EXPECT_GT(threads.size(), 1U);
  threads.clear();
  static_cast<void>(flat(range(40).map(note, {.num_parallel_calls = 4}).batch(40)));
  EXPECT_GT(threads.size(), 1U);
}

TEST_P(Transformations, an_exception_of_a_parallel_map_is_thrown_in_place_of_its_element) {
  const auto fails = [](const Tensor& element) {
    if (number(element) >= 5) throw std::runtime_error("element " + std::to_string(number(element)));
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    return element;
  };
  for (int pass = 0; pass < 5; ++pass) {
    auto iterator = range(50).map(fails, {.num_parallel_calls = 4}).iterate();
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(number(*iterator.get_next_as_optional()), i);
    try {
      static_cast<void>(iterator.get_next_as_optional());
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "element 5");
    }
    EXPECT_FALSE(iterator.get_next_as_optional());

    auto batches = range(50).map(fails, {.num_parallel_calls = 4}).batch(3).iterate();
    EXPECT_EQ(batches.get_next_as_optional()->shape(), Shape{3});
    EXPECT_THROW(static_cast<void>(batches.get_next_as_optional()), std::runtime_error);
  }
}

TEST_P(Transformations, an_iterator_of_a_parallel_map_can_be_destroyed_at_any_time) {
  for (int taken = 0; taken < 6; ++taken) {
    auto iterator = range(1000).map([](Tensor e) { return e; }, {.num_parallel_calls = 3}).iterate();
    for (int i = 0; i < taken; ++i) EXPECT_TRUE(iterator.get_next_as_optional());
  }
}

TEST_P(Transformations, shuffle_can_take_all_of_a_stream) {
  std::map<Numbers, int> counts;
  const auto shuffled = range(3).shuffle(2, {.buffer_elements = ShuffleOptions::whole});
  for (int pass = 0; pass < 600; ++pass) ++counts[flat(shuffled)];
  EXPECT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts) EXPECT_GT(count, 50);
}

TEST_P(Transformations, several_iterators_are_independent) {
  const auto dataset = range(6).filter([](const Tensor& e) { return number(e) != 2; }).shard(2, 0);
  auto first = dataset.iterate();
  EXPECT_EQ(number(*first.get_next_as_optional()), 0);
  auto second = dataset.iterate();
  EXPECT_EQ(number(*first.get_next_as_optional()), 3);
  EXPECT_EQ(number(*second.get_next_as_optional()), 0);
  EXPECT_EQ(number(*first.get_next_as_optional()), 5);
  EXPECT_FALSE(first.get_next_as_optional());
  EXPECT_EQ(number(*second.get_next_as_optional()), 3);
}

TEST(Range, counts_from_start_to_stop_by_step) {
  EXPECT_EQ(flat(Dataset<Tensor>::range(2, 5)), (Numbers{2, 3, 4}));
  EXPECT_EQ(flat(Dataset<Tensor>::range(1, 10, 4)), (Numbers{1, 5, 9}));
  EXPECT_EQ(flat(Dataset<Tensor>::range(5, 0, -2)), (Numbers{5, 3, 1}));
  EXPECT_EQ(flat(Dataset<Tensor>::range(5, 5)), Numbers{});
  EXPECT_EQ(flat(Dataset<Tensor>::range(5, 6, -1)), Numbers{});
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(flat(Dataset<Tensor>::range(least, most, most)), (Numbers{least, -1, most - 1}));
  expect_error(Code::invalid_argument, {"range: step is 0"},
               [] { static_cast<void>(Dataset<Tensor>::range(0, 5, 0)); });
  expect_error(Code::invalid_argument, {"range", "2^63"},
               [] { static_cast<void>(Dataset<Tensor>::range(least, most)); });
  expect_error(Code::invalid_argument, {"range: count is -1"}, [] { static_cast<void>(Dataset<Tensor>::range(-1)); });
}

TEST(FromTensors, is_one_element) {
  const auto one = Dataset<Tensor>::from_tensors(Tensor::from(Numbers{1, 2, 3}));
  EXPECT_EQ(one.cardinality(), Cardinality::known(1));
  EXPECT_EQ(flat(one), (Numbers{1, 2, 3}));
  EXPECT_EQ(one.batch(2).iterate().get_next_as_optional()->shape(), (Shape{1, 3}));
  EXPECT_EQ(flat(Dataset<Tensor>::from_tensors(Tensor::scalar<std::int64_t>(4)).repeat(2)), (Numbers{4, 4}));
}

}  // namespace
}  // namespace lockstep
