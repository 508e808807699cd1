// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/generator.hpp>

#include "unit/strategy/strategies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

namespace lockstep::test {
namespace {

using Words = std::vector<std::uint32_t>;

Words draw(Generator& generator, std::size_t count) {
  Words words(count);
  generator.uniform_full_int(words);
  return words;
}

Words concatenated(const std::vector<Words>& parts) {
  Words all;
  for (const Words& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// The draws of each replica of a layout, by replica id: from a generator created in a scope, from one created outside,
/// and from the first one outside of steps.
struct Draws {
  std::map<int, Words> own;
  std::map<int, Words> piece;
  std::map<int, Words> common;
  friend bool operator==(const Draws&, const Draws&) = default;
};

Draws draws_of(const std::vector<int>& layout) {
  Draws draws;
  std::mutex mutex;
  on_workers(layout, [&](Strategy& strategy) {
    Generator outside = Generator::from_seed(11);
    Generator inside = [&] {
      const Scope scope = strategy.scope();
      return Generator::from_seed(11);
    }();
    for (int step = 0; step < 3; ++step) {
      strategy.run([&](ReplicaContext& replica) {
        const Words own = draw(inside, 5);
        const Words piece = draw(outside, 7);
        const std::scoped_lock lock(mutex);
        Words& all = draws.own[replica.replica_id_in_sync_group()];
        all.insert(all.end(), own.begin(), own.end());
        Words& pieces = draws.piece[replica.replica_id_in_sync_group()];
        pieces.insert(pieces.end(), piece.begin(), piece.end());
      });
    }
    const Words common = draw(inside, 4);
    const std::scoped_lock lock(mutex);
    draws.common.emplace(0, common);
    EXPECT_EQ(draws.common.at(0), common);
  });
  return draws;
}

TEST(Generator, draws_the_same_for_every_layout) {
  const Draws expected = draws_of({4});
  EXPECT_EQ(expected.own.size(), 4U);
  for (const std::vector<int>& layout : {std::vector<int>{1, 1, 1, 1}, {2, 2}, {1, 3}, {2, 1, 1}})
    EXPECT_EQ(draws_of(layout), expected);
}

TEST(Generator, made_in_scope_has_a_stream_for_each_replica_and_one_more) {
  MirroredStrategy strategy = mirrored(3);
  const Scope scope = strategy.scope();
  Generator generator = Generator::from_seed(1);
  const auto own = components(strategy.run([&] { return draw(generator, 3); }));
  EXPECT_NE(own[0], own[1]);
  EXPECT_NE(own[1], own[2]);
  const Words common = draw(generator, 3);
  for (const Words& one : own) EXPECT_NE(one, common);
  // other replicas do not draw, and this replica's next numbers are the same as without them
  Generator again = Generator::from_seed(1);
  strategy.run([&](ReplicaContext& replica) {
    if (replica.replica_id_in_sync_group() != 1) return;
    EXPECT_EQ(draw(again, 3), own[1]);
  });
  EXPECT_EQ(strategy.run([&] { return draw(again, 3); }).component(0), own[0]);
}

TEST(Generator, made_in_a_step_is_its_replicas) {
  MirroredStrategy strategy = mirrored(2);
  const auto draw_new = [] {
    Generator generator = Generator::from_seed(1);
    return draw(generator, 3);
  };
  const auto in_step = components(strategy.run(draw_new));
  const Scope scope = strategy.scope();
  Generator generator = Generator::from_seed(1);
  EXPECT_EQ(components(strategy.run([&] { return draw(generator, 3); })), in_step);
}

TEST(Generator, made_outside_is_one_stream_that_replicas_draw_in_the_order_of_ids) {
  MirroredStrategy strategy = mirrored(2);
  Generator generator = Generator::from_seed(1);
  Generator whole = Generator::from_seed(1);
  const Words before = draw(generator, 1);
  const auto first = components(strategy.run([&] { return draw(generator, 3); }));
  const Words between = draw(generator, 2);
  const auto second = components(strategy.run([&] { return draw(generator, 1); }));
  EXPECT_EQ(concatenated({before, concatenated(first), between, concatenated(second)}), draw(whole, 11));
}

TEST(Generator, in_scope_differs_from_outside_with_one_replica_too) {
  OneDeviceStrategy strategy("cpu:0");
  Generator outside = Generator::from_seed(1);
  const Scope scope = strategy.scope();
  Generator inside = Generator::from_seed(1);
  EXPECT_NE(strategy.run([&] { return draw(inside, 2); }), draw(outside, 2));
}

TEST(Generator, made_again_in_a_new_strategy_draws_the_same) {
  const auto first_draws = [] {
    MirroredStrategy strategy = mirrored(2);
    const Scope scope = strategy.scope();
    Generator generator = Generator::from_seed(7);
    return components(strategy.run([&] { return draw(generator, 5); }));
  };
  set_global_seed(5);
  const auto expected = first_draws();
  EXPECT_EQ(first_draws(), expected);
  set_global_seed(6);
  EXPECT_EQ(first_draws(), expected);
}

TEST(Generator, of_the_global_seed_has_streams_of_its_own) {
  set_global_seed(5);
  EXPECT_EQ(global_seed(), 5U);
  Generator zero = Generator::from_global_seed();
  Generator one = Generator::from_global_seed(1);
  Generator plain = Generator::from_seed(5);
  const Words words = draw(zero, 4);
  EXPECT_NE(words, draw(one, 4));
  EXPECT_NE(words, draw(plain, 4));
  set_global_seed(5);
  Generator again = Generator::from_global_seed();
  EXPECT_EQ(draw(again, 4), words);
  set_global_seed(6);
  Generator other = Generator::from_global_seed();
  EXPECT_NE(draw(other, 4), words);
}

TEST(Generator, is_Philox_with_the_seed_as_key) {
  Generator generator = Generator::from_seed(0);
  EXPECT_EQ(draw(generator, 4), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Generator, draws_of_several_lengths_are_ranges_of_one_stream) {
  Generator pieces = Generator::from_seed(3);
  Generator whole = Generator::from_seed(3);
  std::vector<Words> parts;
  for (const std::size_t count : {1U, 0U, 2U, 4U, 7U}) parts.push_back(draw(pieces, count));
  EXPECT_EQ(concatenated(parts), draw(whole, 14));
  pieces.skip(3);
  whole.skip(1);
  whole.skip(2);
  EXPECT_EQ(draw(pieces, 2), draw(whole, 2));
  Generator copy = pieces;
  EXPECT_EQ(draw(pieces, 2), draw(copy, 2));
}

TEST(GeneratorUniform, stays_in_its_range_and_fills_it_evenly) {
  Generator generator = Generator::from_seed(4);
  std::vector<float> floats(100000);
  generator.uniform(floats, -1.0F, 3.0F);
  std::vector<int> in_bin(8);
  for (const float x : floats) {
    ASSERT_TRUE(x >= -1.0F && x < 3.0F) << x;
    ++in_bin[static_cast<std::size_t>((x + 1.0F) * 2.0F)];
  }
  for (const int count : in_bin) EXPECT_NEAR(count, 12500, 5 * 105);  // five standard deviations
  std::vector<double> doubles(1000);
  generator.uniform(doubles);
  for (const double x : doubles) ASSERT_TRUE(x >= 0 && x < 1) << x;
  std::vector<std::int32_t> dice(60000);
  generator.uniform(dice, 1, 7);
  for (int face = 1; face <= 6; ++face) EXPECT_NEAR(static_cast<double>(std::ranges::count(dice, face)), 10000, 5 * 92);
  EXPECT_EQ(std::ranges::count_if(dice, [](int x) { return x < 1 || x > 6; }), 0);
}

TEST(GeneratorUniform, never_gives_the_upper_end_even_where_the_sum_is_rounded_up) {
  Generator generator = Generator::from_seed(4);
  const float high = std::nextafter(1.0F, 2.0F);
  std::vector<float> ones(1000);
  generator.uniform(ones, 1.0F, high);
  for (const float x : ones) ASSERT_EQ(x, 1.0F);
}

TEST(GeneratorUniform, reaches_all_of_64_bits) {
  Generator generator = Generator::from_seed(4);
  constexpr std::int64_t low = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t high = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> numbers(1000);
  generator.uniform(numbers, low, high);
  EXPECT_LT(*std::ranges::min_element(numbers), low / 100 * 99);
  EXPECT_GT(*std::ranges::max_element(numbers), high / 100 * 99);
  generator.uniform(numbers, high - 1, high);
  for (const std::int64_t x : numbers) ASSERT_EQ(x, high - 1);
}

TEST(GeneratorNormal, has_the_moments_of_the_distribution) {
  Generator generator = Generator::from_seed(5);
  std::vector<double> numbers(100000);
  const auto expect_moments = [&](double mean, double stddev) {
    double sum = 0, squares = 0, cubes = 0, fourths = 0;
    for (const double x : numbers) {
      const double z = (x - mean) / stddev;
      sum += z;
      squares += z * z;
      cubes += z * z * z;
      fourths += z * z * z * z;
    }
    const double count = static_cast<double>(numbers.size());
    const double error = 5 / std::sqrt(count);  // five standard deviations
    EXPECT_NEAR(sum / count, 0, error);
    EXPECT_NEAR(squares / count, 1, error * std::sqrt(2.0));
    EXPECT_NEAR(cubes / count, 0, error * std::sqrt(15.0));
    EXPECT_NEAR(fourths / count, 3, error * std::sqrt(96.0));
  };
  generator.normal(numbers, 2.0, 3.0);
  expect_moments(2, 3);
  std::vector<float> floats(numbers.size());
  generator.normal(floats);
  std::ranges::copy(floats, numbers.begin());
  expect_moments(0, 1);
}

TEST(Generator, makes_tensors_with_the_numbers_of_the_spans) {
  Generator tensors = Generator::from_seed(6);
  Generator spans = Generator::from_seed(6);
  const Tensor uniform = tensors.uniform(Shape{2, 3});
  EXPECT_EQ(uniform.shape(), (Shape{2, 3}));
  std::vector<float> floats(6);
  spans.uniform(floats);
  EXPECT_EQ(elements_of<float>(uniform), floats);
  const Tensor normal = tensors.normal(Shape{5}, DType::f64);
  std::vector<double> doubles(5);
  spans.normal(doubles);
  EXPECT_EQ(elements_of<double>(normal), doubles);
}

TEST(Generator, refuses_invalid_ranges_and_types) {
  Generator generator = Generator::from_seed(1);
  std::vector<float> floats(2);
  std::vector<std::int32_t> numbers(2);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  expect_error(Code::invalid_argument, {"uniform", "low is 2", "high is 1"}, [&] { generator.uniform(floats, 2, 1); });
  expect_error(Code::invalid_argument, {"high is inf"}, [&] { generator.uniform(floats, 0, infinity); });
  expect_error(Code::invalid_argument, {"low is 3", "high is 3"}, [&] { generator.uniform(numbers, 3, 3); });
  expect_error(Code::invalid_argument, {"normal", "stddev -1"}, [&] { generator.normal(floats, 0, -1); });
  expect_error(Code::invalid_argument, {"uniform", "i32", "f32 or f64"},
               [&] { (void)generator.uniform(Shape{2}, DType::i32); });
  // a refused draw does not advance the stream
  Generator fresh = Generator::from_seed(1);
  EXPECT_EQ(draw(generator, 1), draw(fresh, 1));
}

TEST(Generator, made_outside_refuses_unequal_draws) {
  MirroredStrategy strategy = mirrored(2);
  Generator generator = Generator::from_seed(1);
  expect_error(Code::mismatch, {"replica 1 draws 4 random words", "replica 0 draws 3", "create it in a scope"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      (void)draw(generator, static_cast<std::size_t>(3 + replica.replica_id_in_sync_group()));
    });
  });
}

TEST(Generator, names_itself_if_a_replica_does_not_draw) {
  MirroredStrategy strategy = mirrored(2);
  Generator generator = Generator::from_seed(1);
  expect_error(Code::failed_precondition, {"replica 1 waits in a draw from a Generator that was created outside"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      if (replica.local_replica() == 1) (void)draw(generator, 1);
    });
  });
}

TEST(Generator, refuses_updates_and_other_strategies) {
  MirroredStrategy strategy = mirrored(2);
  MirroredStrategy other = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  Generator generator = [&] {
    const Scope scope = strategy.scope();
    return Generator::from_seed(1);
  }();
  expect_error(Code::failed_precondition, {"update context", "draw the numbers before update"}, [&] {
    strategy.extended().update(variable, [&](const auto& copy) { generator.uniform(copy.updatable_component()); });
  });
  expect_error(Code::failed_precondition, {"update context"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      replica.update(variable, [&](const auto& copy) { generator.uniform(copy.updatable_component()); });
    });
  });
  expect_error(Code::failed_precondition, {"of another", "outside of both"},
               [&] { other.run([&] { (void)draw(generator, 1); }); });
}

}  // namespace
}  // namespace lockstep::test
