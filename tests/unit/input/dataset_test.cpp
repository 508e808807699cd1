// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/input/dataset.hpp>

#include <lockstep/base/error.hpp>

#include "input/numbers.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

struct Example {
  Tensor image;
  std::array<Tensor, 2> labels;
};
template <>
struct tree_members<Example> {
  static constexpr auto pointers = std::tuple(&Example::image, &Example::labels);
};

namespace {

using test::expect_error;
using Pair = std::tuple<Tensor, Tensor>;

std::vector<Numbers> all(const Dataset<Tensor>& dataset) {
  std::vector<Numbers> result;
  for (const Tensor& element : dataset) result.push_back(numbers(element));
  return result;
}

static_assert(ElementTree<Tensor> && ElementTree<Pair> && ElementTree<std::pair<Tensor, Pair>> && ElementTree<Example>);
static_assert(!ElementTree<float> && !ElementTree<std::tuple<>>);
static_assert(!ElementTree<std::tuple<Tensor, int>>);
static_assert(input::leaf_count<Example>::value == 3);

/// Every test runs with random access and with streams, which must behave alike.
class Sources : public testing::TestWithParam<bool> {
 protected:
  static Dataset<Tensor> range(std::int64_t count) {
    return GetParam() ? Dataset<Tensor>::range(count) : stream(count);
  }
};
INSTANTIATE_TEST_SUITE_P(Dataset, Sources, testing::Bool(),
                         [](const auto& source) { return std::string(source.param ? "random_access" : "stream"); });

TEST_P(Sources, give_their_elements_in_order_in_each_pass) {
  const auto dataset = range(3);
  EXPECT_EQ(all(dataset), (std::vector<Numbers>{{0}, {1}, {2}}));
  EXPECT_EQ(all(dataset), (std::vector<Numbers>{{0}, {1}, {2}}));
  EXPECT_EQ(all(range(0)), (std::vector<Numbers>{}));
}

TEST_P(Sources, are_taken_skipped_and_repeated) {
  EXPECT_EQ(flat(range(5).take(2)), (Numbers{0, 1}));
  EXPECT_EQ(flat(range(5).take(9)), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(flat(range(5).skip(3)), (Numbers{3, 4}));
  EXPECT_EQ(flat(range(5).skip(9)), (Numbers{}));
  EXPECT_EQ(flat(range(2).repeat(3)), (Numbers{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(flat(range(2).repeat(0)), (Numbers{}));
  EXPECT_EQ(flat(range(2).repeat().skip(1).take(4)), (Numbers{1, 0, 1, 0}));
  EXPECT_EQ(flat(range(0).repeat()), (Numbers{}));
}

TEST_P(Sources, are_batched_with_a_short_last_batch_unless_it_is_dropped) {
  EXPECT_EQ(all(range(5).batch(2)), (std::vector<Numbers>{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(all(range(5).batch(2, {.drop_remainder = true})), (std::vector<Numbers>{{0, 1}, {2, 3}}));
  EXPECT_EQ(all(range(4).batch(2)), (std::vector<Numbers>{{0, 1}, {2, 3}}));
  EXPECT_EQ(all(range(3).batch(1'000'000'000'000)), (std::vector<Numbers>{{0, 1, 2}}));
  EXPECT_EQ(all(range(3).repeat(2).batch(4)), (std::vector<Numbers>{{0, 1, 2, 0}, {1, 2}}));
  EXPECT_EQ(all(range(3).batch(2).repeat(2)), (std::vector<Numbers>{{0, 1}, {2}, {0, 1}, {2}}));
  EXPECT_EQ(all(range(7).batch(2).skip(1).take(2)), (std::vector<Numbers>{{2, 3}, {4, 5}}));
  EXPECT_EQ(flat(range(200).batch(150)), flat(range(200)));
}

TEST_P(Sources, batched_twice_have_two_more_axes) {
  const auto batches = range(6).batch(2).batch(2);
  const Tensor first = *batches.iterate().get_next_as_optional();
  EXPECT_EQ(first.shape(), (Shape{2, 2}));
  EXPECT_EQ(all(batches), (std::vector<Numbers>{{0, 1, 2, 3}, {4, 5}}));
}

TEST_P(Sources, shuffled_give_every_element_once_in_another_order_each_pass) {
  const auto shuffled = range(100).shuffle(7);
  std::set<Numbers> orders;
  for (int pass = 0; pass < 4; ++pass) {
    Numbers order = flat(shuffled);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, flat(range(100)));
  }
  EXPECT_EQ(orders.size(), 4U);
  EXPECT_EQ(flat(range(100).shuffle(7)), flat(range(100).shuffle(7)));
  EXPECT_NE(flat(range(100).shuffle(7)), flat(range(100).shuffle(8)));
}

TEST_P(Sources, shuffled_then_repeated_are_the_passes_one_after_the_other) {
  const auto shuffled = range(10).shuffle(3);
  Numbers passes;
  for (int pass = 0; pass < 3; ++pass) {
    for (const std::int64_t number : flat(shuffled)) passes.push_back(number);
  }
  EXPECT_EQ(flat(range(10).shuffle(3).repeat(3)), passes);
  EXPECT_EQ(flat(range(10).shuffle(3).repeat().take(30)), passes);
}

TEST_P(Sources, shuffled_once_and_for_all_keep_their_order) {
  const auto shuffled = range(50).shuffle(7, {.reshuffle_each_iteration = false});
  const Numbers first = flat(shuffled);
  EXPECT_EQ(flat(shuffled), first);
  EXPECT_NE(first, flat(range(50)));
}

TEST_P(Sources, can_be_read_at_any_pass_by_number) {
  const auto shuffled = range(20).shuffle(5);
  static_cast<void>(flat(shuffled));
  const Numbers second = flat(shuffled);
  Numbers again;
  auto iterator = shuffled.iterate(1);
  while (const auto element = iterator.get_next_as_optional()) again.push_back(numbers(*element)[0]);
  EXPECT_EQ(again, second);
}

TEST_P(Sources, are_mapped_before_and_after_batch) {
  const auto doubled = [](const Tensor& element) {
    Tensor result = element.clone();
    for (std::int64_t& number : result.elements<std::int64_t>()) number *= 2;
    return result;
  };
  EXPECT_EQ(all(range(5).map(doubled).shuffle(1).batch(2)).size(), 3U);
  EXPECT_EQ(all(range(3).map(doubled).batch(2)), (std::vector<Numbers>{{0, 2}, {4}}));
  EXPECT_EQ(all(range(3).batch(2).map(doubled)), (std::vector<Numbers>{{0, 2}, {4}}));
  EXPECT_EQ(all(range(3).batch(2).map_rows(doubled)), (std::vector<Numbers>{{0, 2}, {4}}));
  const auto pairs = range(3).map([](const Tensor& element) { return Pair(element, Tensor::scalar(1.0F)); }).batch(2);
  const Pair first = *pairs.iterate().get_next_as_optional();
  EXPECT_EQ(std::get<1>(first).shape(), (Shape{2}));
  EXPECT_EQ(std::get<1>(first).dtype(), DType::f32);
}

TEST_P(Sources, read_ahead_are_the_same) {
  EXPECT_EQ(flat(range(100).prefetch(3).batch(7).prefetch(2)), flat(range(100)));
}

TEST_P(Sources, know_their_cardinality_as_far_as_it_can_be_known) {
  const bool known = GetParam();
  EXPECT_EQ(range(7).batch(2).cardinality(), known ? Cardinality::known(4) : Cardinality::unknown());
  EXPECT_EQ(range(7).batch(2, {.drop_remainder = true}).take(2).cardinality(),
            known ? Cardinality::known(2) : Cardinality::unknown());
  EXPECT_EQ(range(7).repeat().batch(3).cardinality(), known ? Cardinality::infinite() : Cardinality::unknown());
  EXPECT_EQ(range(7).repeat(2).skip(3).shuffle(1).cardinality(),
            known ? Cardinality::known(11) : Cardinality::unknown());
  EXPECT_EQ(range(7).repeat(0).cardinality(), Cardinality::known(0));
  EXPECT_EQ(range(7).batch_size(), std::nullopt);
  EXPECT_EQ(range(7).batch(4).take(1).prefetch(1).batch_size(), 4);
}

TEST_P(Sources, rethrow_exceptions_and_then_end) {
  const auto fails = range(5).map([](const Tensor& element) {
    if (numbers(element)[0] == 2) throw std::runtime_error("row 2 is bad");
    return element;
  });
  for (const auto& dataset : {fails, fails.prefetch(2)}) {
    auto iterator = dataset.iterate();
    EXPECT_TRUE(iterator.get_next_as_optional());
    EXPECT_TRUE(iterator.get_next_as_optional());
    EXPECT_THROW(static_cast<void>(iterator.get_next_as_optional()), std::runtime_error);
    EXPECT_FALSE(iterator.get_next_as_optional());
  }
}

TEST_P(Sources, refuse_invalid_arguments) {
  const auto five = range(5);
  expect_error(Code::invalid_argument, {"batch: rows is 0"}, [&] { static_cast<void>(five.batch(0)); });
  expect_error(Code::invalid_argument, {"take: count is -1"}, [&] { static_cast<void>(five.take(-1)); });
  expect_error(Code::invalid_argument, {"skip: count is -2"}, [&] { static_cast<void>(five.skip(-2)); });
  expect_error(Code::invalid_argument, {"repeat: times is -2"}, [&] { static_cast<void>(five.repeat(-2)); });
  expect_error(Code::invalid_argument, {"prefetch: depth is 0"}, [&] { static_cast<void>(five.prefetch(0)); });
  // whether the elements of a generator are batches is known when they are read
  expect_error(Code::invalid_argument, {GetParam() ? "not batched" : "a scalar"},
               [&] { static_cast<void>(all(five.map_rows([](Tensor rows) { return rows; }))); });
  expect_error(Code::invalid_argument, {"buffer_elements"},
               [&] { static_cast<void>(five.shuffle(1, {.buffer_elements = 0})); });
  expect_error(Code::invalid_argument, {"return as many"}, [&] {
    static_cast<void>(all(five.batch(2).map_rows([](const Tensor&) { return Tensor(DType::i64, Shape{1}); })));
  });
}

TEST(Dataset, of_slices_takes_row_i_of_every_tensor) {
  const auto images = Tensor::from(std::span<const std::int64_t>(Numbers{1, 2, 3, 4, 5, 6}), Shape{3, 2});
  const Example tensors{images, {Tensor::from(Numbers{7, 8, 9}), Tensor::from(std::vector<float>{0, 1, 2})}};
  const auto dataset = Dataset<Example>::from_tensor_slices(tensors);
  std::int64_t row = 0;
  for (const Example& example : dataset) {
    EXPECT_EQ(numbers(example.image), (Numbers{2 * row + 1, 2 * row + 2}));
    EXPECT_EQ(example.labels[0].shape(), Shape{});
    EXPECT_EQ(numbers(example.labels[0]), (Numbers{7 + row}));
    EXPECT_EQ(example.labels[1].elements<float>()[0], static_cast<float>(row));
    ++row;
  }
  EXPECT_EQ(row, 3);
}

TEST(Dataset, of_slices_gathers_rows_of_any_length) {
  for (const std::int64_t width : {0, 1, 2, 3, 4, 8, 9, 784}) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(20 * width));
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    const auto dataset =
        Dataset<Pair>::from_tensor_slices(
            {Tensor::from(std::span<const std::uint8_t>(bytes), Shape{20, width}), Tensor(DType::i64, Shape{20})})
            .shuffle(4)
            .batch(20);
    const auto order = flat(Dataset<Tensor>::range(20).shuffle(4));
    const Tensor batch = std::get<0>(*dataset.iterate().get_next_as_optional());
    ASSERT_EQ(batch.shape(), (Shape{20, width}));
    for (std::int64_t i = 0; i < 20; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        ASSERT_EQ(batch.elements<std::uint8_t>()[static_cast<std::size_t>(i * width + j)],
                  bytes[static_cast<std::size_t>(order[static_cast<std::size_t>(i)] * width + j)]);
      }
    }
  }
}

TEST(Dataset, of_slices_refuses_scalars_and_different_numbers_of_rows) {
  expect_error(Code::invalid_argument, {"tensor 0 has 3 rows but tensor 1 has 2"}, [] {
    static_cast<void>(
        Dataset<Pair>::from_tensor_slices({Tensor(DType::f32, Shape{3, 2}), Tensor(DType::f32, Shape{2})}));
  });
  expect_error(Code::invalid_argument, {"scalar"},
               [] { static_cast<void>(Dataset<Tensor>::from_tensor_slices(Tensor::scalar(1.0F))); });
}

TEST(Dataset, that_would_have_too_many_elements_is_refused) {
  expect_error(Code::invalid_argument, {"2^63"},
               [] { static_cast<void>(Dataset<Tensor>::range(4).repeat(std::int64_t{1} << 62)); });
}

TEST(Dataset, of_elements_that_differ_in_shape_cannot_be_batched) {
  const auto uneven = Dataset<Tensor>::range(3).map(
      [](const Tensor& element) { return Tensor(DType::f32, Shape{numbers(element)[0] + 1}); });
  expect_error(Code::invalid_argument, {"f32 [2] in element 1 of the batch, but f32 [1] in element 0"},
               [&] { static_cast<void>(uneven.batch(2).iterate().get_next_as_optional()); });
}

TEST(Dataset, passes_functions_memory_that_is_reused) {
  std::set<const void*> blocks;
  const auto batches = Dataset<Tensor>::range(400).batch(4).map_rows(
      [](const Tensor& rows, const std::shared_ptr<MemoryResource>& memory) {
        return Tensor(DType::f32, rows.shape(), memory);
      });
  for (const Tensor& batch : batches) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.data()) % 64, 0U);
    blocks.insert(batch.data());
  }
  EXPECT_LE(blocks.size(), 4U);
}

TEST(Dataset, does_not_reuse_the_memory_of_elements_in_use) {
  std::vector<Tensor> held;
  for (const Tensor& batch : Dataset<Tensor>::range(400).batch(4)) held.push_back(batch);
  for (std::size_t i = 0; i < held.size(); ++i) EXPECT_EQ(numbers(held[i])[0], static_cast<std::int64_t>(4 * i));
}

// The order is part of the contract: it must not change with the compiler or the version.
TEST(Shuffle, order_never_changes) {
  EXPECT_EQ(flat(Dataset<Tensor>::range(10).shuffle(42)), (Numbers{5, 1, 9, 6, 7, 2, 4, 0, 8, 3}));
}

TEST(Shuffle, permutations_are_about_equally_likely) {
  std::map<Numbers, int> counts;
  const auto shuffled = Dataset<Tensor>::range(4).shuffle(9);
  constexpr int passes = 24 * 400;
  for (int pass = 0; pass < passes; ++pass) ++counts[flat(shuffled)];
  ASSERT_EQ(counts.size(), 24U);
  double chi_squared = 0;
  for (const auto& [order, count] : counts) chi_squared += (count - 400.0) * (count - 400.0) / 400.0;
  EXPECT_LT(chi_squared, 49.7);  // 23 degrees of freedom, 0.1 %
}

TEST(Shuffle, of_a_stream_draws_from_its_buffer) {
  const Numbers order = flat(stream(1000).shuffle(1, {.buffer_elements = 10}));
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_LT(order[i], static_cast<std::int64_t>(i) + 10);
  EXPECT_NE(order, flat(stream(1000)));
}

}  // namespace
}  // namespace lockstep
