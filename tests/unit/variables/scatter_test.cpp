// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Writing single rows of a variable.

#include "unit/strategy/strategies.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Copies = std::vector<Floats>;

template <class T>
IndexedSlices slices(const std::vector<std::int64_t>& indices, const std::vector<T>& values, std::int64_t rows) {
  return {Tensor::from(values), Tensor::from(indices), rows};
}

TEST(Scatter, outside_of_steps_goes_to_every_copy) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(Floats{1, 2, 3});
  v.scatter_add(slices<float>({0, 2}, {1, 5}, 3));
  EXPECT_EQ(copies(v), (Copies{{2, 2, 8}, {2, 2, 8}}));
  v.scatter_sub(slices<float>({1, 1}, {1, 3}, 3)).scatter_mul(slices<float>({2}, {2}, 3));
  EXPECT_EQ(copies(v), (Copies{{2, -2, 16}, {2, -2, 16}}));
  v.scatter_div(slices<float>({2}, {4}, 3)).scatter_min(slices<float>({0, 1}, {1, 1}, 3));
  EXPECT_EQ(copies(v), (Copies{{1, -2, 4}, {1, -2, 4}}));
  v.scatter_max(slices<float>({0, 1}, {0, 9}, 3)).scatter_update(slices<float>({2, 2}, {6, 7}, 3));
  EXPECT_EQ(copies(v), (Copies{{1, 9, 7}, {1, 9, 7}}));
}

TEST(Scatter, in_update_goes_to_that_copy) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(Floats{1, 2});
  strategy.extended().update(
      v, [&](const auto&, float x) { v.scatter_add(slices<float>({1}, {x}, 2)); }, PerReplica<float>({3, 4}));
  EXPECT_EQ(copies(v), (Copies{{1, 5}, {1, 6}}));
}

TEST(Scatter, in_a_step_applies_the_rows_of_all_replicas) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(Floats{1, 2, 3}, aggregated_by(VariableAggregation::sum));
  const PerReplica<IndexedSlices> given({slices<float>({0, 1}, {1, 2}, 3), slices<float>({1}, {10}, 3)});
  strategy.run([&](const IndexedSlices& mine) { v.scatter_add(mine); }, given);
  EXPECT_EQ(copies(v), (Copies{{2, 14, 3}, {2, 14, 3}}));
  const auto mean = strategy.variable<float>(Floats{0, 0, 0}, aggregated_by(VariableAggregation::mean));
  const PerReplica<IndexedSlices> halves({slices<float>({0, 1}, {0, 1}, 3), slices<float>({1, 2}, {1, 2}, 3)});
  strategy.run([&](const IndexedSlices& mine) { mean.scatter_sub(mine); }, halves);
  EXPECT_EQ(copies(mean), (Copies{{0, -1, -1}, {0, -1, -1}}));
}

TEST(Scatter, in_a_step_may_take_the_first_replicas_rows) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const auto v = strategy.variable<float>(Floats{2, 4, 8}, aggregated_by(VariableAggregation::only_first_replica));
    strategy.run([&](ReplicaContext& replica) {
      const bool first = replica.replica_id_in_sync_group() == 0;
      v.scatter_mul(first ? slices<float>({0}, {3}, 3) : slices<float>({1, 2}, {9, 9}, 3));
      v.scatter_max(first ? slices<float>({1, 0}, {5, 0}, 3) : slices<float>({}, {}, 3));
      v.scatter_update(first ? slices<float>({2}, {7}, 3) : slices<float>({0}, {9}, 3));
      v.scatter_min(first ? slices<float>({0}, {1}, 3) : slices<float>({0}, {0}, 3));
      v.scatter_div(first ? slices<float>({1}, {2}, 3) : slices<float>({1}, {9}, 3));
      v.scatter_add(first ? slices<float>({}, {}, 3) : slices<float>({1}, {9}, 3));
    });
    for (const Floats& copy : copies(v)) EXPECT_EQ(copy, (Floats{1, 2.5, 7}));
  });
}

TEST(Scatter, gathers_rows_of_different_numbers_over_ranks) {
  for (const auto& layout : std::vector<std::vector<int>>{{4}, {1, 3}, {2, 1, 1}, {1, 1, 1, 1}}) {
    on_workers(layout, [](Strategy& strategy) {
      const auto v = strategy.variable(Tensor::from(std::span<const int>(std::vector<int>(8)), Shape{4, 2}),
                                       aggregated_by(VariableAggregation::sum));
      for (int round = 0; round < 2; ++round) {
        strategy.run([&](ReplicaContext& replica) {
          // replica r has r rows: none of the first one
          const auto r = static_cast<std::size_t>(replica.replica_id_in_sync_group());
          std::vector<int> values;
          for (std::size_t k = 0; k < 2 * r; ++k) values.push_back(static_cast<int>(10 * r + k));
          const auto count = static_cast<std::int64_t>(r);
          v.scatter_add({Tensor::from(std::span<const int>(values), Shape{count, 2}),
                         Tensor::from(std::vector<std::int64_t>(r, count)), 4});
        });
      }
      // rows of 10 11; 20 21 and 22 23; 30 31, 32 33 and 34 35; twice
      const std::vector<int> expected{0, 0, 20, 22, 84, 88, 192, 198};
      for (int i = 0; i < v.component_count(); ++i) EXPECT_EQ(elements_of<int>(v.component(i)), expected);
      strategy.run([&] { v.scatter_add({Tensor(DType::i32, Shape{0, 2}), Tensor(DType::i64, Shape{0}), 4}); });
      EXPECT_EQ(elements_of<int>(v.component(0)), expected);
    });
  }
}

TEST(Scatter, rounds_a_row_once) {
  MirroredStrategy strategy = mirrored(4);
  const auto v =
      strategy.variable<BFloat16>(std::vector<BFloat16>{BFloat16(256.0F)}, aggregated_by(VariableAggregation::sum));
  strategy.run([&] { v.scatter_add(slices<BFloat16>({0}, {BFloat16(1.0F)}, 1)); });
  EXPECT_EQ(float(v.value()), 260.0F);
}

TEST(Scatter, of_integers_wraps) {
  const auto v = make_variable<std::int8_t>(std::vector<std::int8_t>{127, -128, 100});
  v.scatter_add(slices<std::int8_t>({0}, {1}, 3)).scatter_div(slices<std::int8_t>({1}, {-1}, 3));
  v.scatter_mul(slices<std::int8_t>({2}, {3}, 3));
  EXPECT_EQ(v.values(), (std::vector<std::int8_t>{-128, -128, 44}));
  const auto u = make_variable<std::uint16_t>(std::vector<std::uint16_t>{65535});
  u.scatter_mul(slices<std::uint16_t>({0}, {65535}, 1));
  EXPECT_EQ(u.value(), 1);
}

TEST(Scatter, min_and_max_are_those_of_reductions) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto v = make_variable<float>(Floats{0.0F, -0.0F, 1.0F});
  v.scatter_min(slices<float>({0, 2}, {-0.0F, nan}, 3)).scatter_max(slices<float>({1}, {0.0F}, 3));
  const Floats values = v.values();
  EXPECT_TRUE(std::signbit(values[0]));
  EXPECT_FALSE(std::signbit(values[1]));
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST(Scatter, stores_one_nan_but_copies_what_it_updates) {
  const float odd = std::bit_cast<float>(0xffc12345U);
  const auto v = make_variable<float>(Floats{1, 2, 3});
  v.scatter_add(slices<float>({0}, {odd}, 3)).scatter_update(slices<float>({1}, {odd}, 3));
  const Floats values = v.values();
  EXPECT_EQ(std::bit_cast<std::uint32_t>(values[0]), 0x7fc00000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(values[1]), 0xffc12345U);
}

TEST(Scatter, takes_the_rows_of_the_variable_itself_as_they_were) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(Floats{1, 2, 3});
  v.scatter_add({v.component(0), Tensor::from(std::vector<std::int64_t>{2, 0, 1}), 3});
  EXPECT_EQ(copies(v), (Copies{{3, 5, 4}, {3, 5, 4}}));
}

TEST(Scatter, of_flags_only_updates) {
  const Tensor flags = Tensor(DType::boolean, Shape{3});
  const auto v = make_variable(flags, {.name = "v"});
  Tensor on(DType::boolean, Shape{1});
  on.elements<bool>()[0] = true;
  v.scatter_update({on, Tensor::from(std::vector<std::int64_t>{1}), 3});
  EXPECT_EQ(elements_of<bool>(v.read()), (std::vector<bool>{false, true, false}));
  expect_error(Code::invalid_argument, {"scatter_add", "\"v\"", "elements are bool, which support only scatter_update"},
               [&] { v.scatter_add({on, Tensor::from(std::vector<std::int64_t>{1}), 3}); });
}

TEST(Scatter, of_minimum_maximum_and_update_has_no_sum_over_replicas) {
  MirroredStrategy strategy = mirrored(2);
  const IndexedSlices rows = slices<float>({0}, {1}, 3);
  for (const auto aggregation : {VariableAggregation::sum, VariableAggregation::mean}) {
    const auto v = strategy.variable<float>(Floats{0, 0, 0}, aggregated_by(aggregation));
    const std::string name(to_string(aggregation));
    expect_error(Code::unimplemented, {"scatter_min", "\"v\"", name, "only_first_replica"},
                 [&] { strategy.run([&] { v.scatter_min(rows); }); });
    expect_error(Code::unimplemented, {"scatter_max", name}, [&] { strategy.run([&] { v.scatter_max(rows); }); });
    expect_error(Code::unimplemented, {"scatter_update", name}, [&] { strategy.run([&] { v.scatter_update(rows); }); });
    v.scatter_update(rows);
    EXPECT_EQ(v.values(), (Floats{1, 0, 0}));
  }
}

TEST(Scatter, without_aggregation_is_refused_in_steps) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(Floats{0, 0, 0}, {.name = "v"});
  expect_error(Code::invalid_argument, {"\"v\"", "aggregation is none", "merge_call"},
               [&] { strategy.run([&] { v.scatter_add(slices<float>({0}, {1}, 3)); }); });
}

TEST(Scatter, is_not_for_variables_synchronized_on_read) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const auto v = strategy.sync_on_read_variable<float>(Floats{1, 2, 3}, aggregated_by(VariableAggregation::sum));
    const IndexedSlices rows = slices<float>({0}, {1}, 3);
    expect_error(Code::unimplemented, {"scatter_add", "\"v\"", "on read", "on_write"},
                 [&] { strategy.run([&] { v.scatter_add(rows); }); });
    expect_error(Code::unimplemented, {"scatter_update", "on read"}, [&] { v.scatter_update(rows); });
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })), 3);
  });
}

TEST(Scatter, refuses_rows_that_are_not_the_variables) {
  const auto v = make_variable<std::int32_t>(std::vector<std::int32_t>{1, 2, 3}, {.name = "v"});
  const auto refused = [&](std::initializer_list<std::string> parts, const IndexedSlices& rows) {
    expect_error(Code::invalid_argument, parts, [&] { v.scatter_div(rows); });
    EXPECT_EQ(v.values(), (std::vector<std::int32_t>{1, 2, 3}));
  };
  refused({"scatter_div", "index 3", "3 rows"}, slices<std::int32_t>({3}, {1}, 3));
  refused({"scatter_div", "\"v\"", "i32[4]", "i32[3]"}, slices<std::int32_t>({0}, {1}, 4));
  refused({"f32[3]", "i32[3]"}, slices<float>({0}, {1}, 3));
  refused({"scatter_div", "divided by zero"}, slices<std::int32_t>({0, 1}, {1, 0}, 3));
  const auto number = make_variable<float>(1.0F);
  expect_error(Code::invalid_argument, {"a scalar, which has no rows"},
               [&] { number.scatter_add(slices<float>({0}, {1}, 1)); });
}

TEST(Scatter, of_different_variables_by_the_replicas_is_refused) {
  MirroredStrategy strategy = mirrored(2);
  const auto a = strategy.variable<float>(Floats{1}, {.name = "a", .aggregation = VariableAggregation::sum});
  const auto b = strategy.variable<float>(Floats{1}, {.name = "b", .aggregation = VariableAggregation::sum});
  const IndexedSlices rows = slices<float>({0}, {1}, 1);
  expect_error(Code::failed_precondition, {"replica 1 writes variable \"b\"", "variable \"a\"", "same writes"}, [&] {
    strategy.run([&](ReplicaContext& replica) { (replica.local_replica() == 0 ? a : b).scatter_add(rows); });
  });
  on_workers({1, 1}, [&](Strategy& workers) {
    const auto c = workers.variable<float>(Floats{1}, {.name = "c", .aggregation = VariableAggregation::sum});
    constexpr unsigned line = __LINE__;
    expect_error(Code::mismatch,
                 {"scatter_add to c\" at variables/scatter_test.cpp:" + std::to_string(line + 6), "scatter_sub to c"},
                 [&] {
                   workers.run([&](ReplicaContext& replica) {
                     const bool is_first = replica.replica_id_in_sync_group() == 0;
                     is_first ? c.scatter_add(rows) : c.scatter_sub(rows);
                   });
                 });
  });
}

}  // namespace
}  // namespace lockstep::test
