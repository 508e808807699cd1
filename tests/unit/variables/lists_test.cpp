// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Lists in braces as initial values of variables, and as values that are written.

#include "unit/strategy/strategies.hpp"

#include <cstdint>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Copies = std::vector<Floats>;

TEST(VariableList, is_an_initial_value) {
  MirroredStrategy strategy = mirrored(2);
  const MirroredVariable<float> row = strategy.variable<float>({1, 2, 3});
  EXPECT_EQ(row.shape(), Shape{3});
  EXPECT_EQ(copies(row), Copies(2, Floats{1, 2, 3}));
  const auto matrix = strategy.variable<float>({{1, 2}, {3, 4}}, {.name = "matrix"});
  EXPECT_EQ(matrix.shape(), (Shape{2, 2}));
  EXPECT_EQ(matrix.name(), "matrix");
  EXPECT_EQ(strategy.variable<std::int64_t>({{1}, {2}}).shape(), (Shape{2, 1}));
  const SyncOnReadVariable<float> counts =
      strategy.sync_on_read_variable<float>({1, 2}, {.aggregation = VariableAggregation::sum});
  EXPECT_EQ(counts.values(), (Floats{2, 4}));
  expect_error(Code::invalid_argument, {"part 1", "[1]", "[2]"},
               [&] { (void)strategy.variable<float>({{1, 2}, {3}}); });
}

TEST(VariableList, is_an_initial_value_of_the_current_strategy) {
  EXPECT_EQ(make_variable<BFloat16>({0.5, 1}).dtype(), DType::bf16);
  MirroredStrategy strategy = mirrored(2);
  const Scope scope = strategy.scope();
  EXPECT_EQ(make_variable<float>({{1, 2}}).component_count(), 2);
  EXPECT_EQ(make_sync_on_read_variable<std::int32_t>({1, 2}).synchronization(), VariableSynchronization::on_read);
}

TEST(VariableList, is_written) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>({{1, 2}, {3, 4}}, aggregated_by(VariableAggregation::sum));
  v.assign({{1, 1}, {2, 2}});
  v.assign_add({{1, 2}, {3, 4}});
  v.assign_sub({{0, 0}, {0, 1}});
  EXPECT_EQ(copies(v), Copies(2, Floats{2, 3, 5, 5}));
  strategy.run([&] { v.assign({{1, 2}, {3, 4}}); });
  EXPECT_EQ(copies(v), Copies(2, Floats{2, 4, 6, 8}));
  expect_error(Code::invalid_argument, {"[2]", "[2, 2]"}, [&] { v.assign({1, 2}); });
}

TEST(Variable, is_initialised_with_the_value_of_a_variable_or_reading) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>({1, 2});
  EXPECT_EQ(copies(strategy.variable<float>(v)), Copies(2, Floats{1, 2}));
  EXPECT_EQ(copies(strategy.variable<float>(v * 2)), Copies(2, Floats{2, 4}));
  EXPECT_EQ(copies(strategy.variable<float>(v.component(1))), Copies(2, Floats{1, 2}));
  EXPECT_EQ(strategy.variable<double>(Mirrored<float>({3})).value(), 3.0);
}

}  // namespace
}  // namespace lockstep::test
