// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on the values of variables.

#include "unit/strategy/strategies.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <sstream>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

TEST(Reading, follows_each_variables_own_rule) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(3.0F);
  const auto w = strategy.sync_on_read_variable<float>(0.0F, {.aggregation = VariableAggregation::sum});
  const auto m = strategy.sync_on_read_variable<float>(0.0F, {.aggregation = VariableAggregation::mean});
  strategy.run([&](ReplicaContext& replica) {
    w.assign(replica.replica_id_in_sync_group() + 1);
    m.assign(replica.replica_id_in_sync_group());
  });
  EXPECT_EQ(v * 2 + 1, 7.0F);
  EXPECT_EQ(w * 2, 6.0F);
  EXPECT_EQ(v + w, 6.0F);
  EXPECT_EQ(m + 1, 1.5F);
  EXPECT_EQ(1 - v / 2, -0.5F);
  EXPECT_EQ(components(strategy.run([&]() -> float { return v + w; })), (Floats{4, 5}));
  EXPECT_EQ(components(strategy.run([&]() -> float { return m + 1; })), (Floats{1, 2}));
}

TEST(Reading, of_a_step_is_a_value_per_replica) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(5.0F);
  const PerReplica<Reading<float>> product = strategy.run(
      [](const MirroredVariable<float>& variable, float x) { return variable * x; }, v, PerReplica<float>({1, 2}));
  std::ostringstream out;
  out << product;
  EXPECT_EQ(out.str(), "PerReplica:{0: 5, 1: 10}");
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, product), 15.0F);
  EXPECT_EQ(product.component(0), 5.0F);
}

TEST(Variable, converts_to_the_number_that_its_context_reads) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(3.0F);
  const auto w = strategy.sync_on_read_variable<int>(0, {.aggregation = VariableAggregation::sum});
  strategy.run([&](ReplicaContext& replica) { w.assign(replica.replica_id_in_sync_group() + 1); });
  EXPECT_EQ(double(v), 3.0);
  EXPECT_EQ(int(w), 3);
  EXPECT_EQ(float(static_cast<const Variable&>(w)), 3.0F);
  EXPECT_EQ(components(strategy.run([&] { return float(w); })), (Floats{1, 2}));
  expect_error(Code::invalid_argument, {"f32", "i32"}, [&] { (void)int(v); });
  expect_error(Code::invalid_argument, {"[2]", "exactly one"}, [&] { (void)float(strategy.variable<float>({1, 2})); });
  expect_error(Code::invalid_argument, {"aggregation is none"},
               [&] { (void)float(strategy.sync_on_read_variable<float>(0)); });
  static_assert(!std::convertible_to<MirroredVariable<float>, float>, "the conversion is explicit");
  static_assert(!std::constructible_from<bool, MirroredVariable<float>>, "a variable is not a condition");
}

TEST(Variable, is_on_the_device_of_the_copy_that_its_context_uses) {
  MirroredStrategy strategy = mirrored(2);
  for (const Variable& v : {Variable(strategy.variable<float>(3.0F)),
                            Variable(strategy.sync_on_read_variable<float>(3.0F, {.name = "r"}))}) {
    EXPECT_EQ(v.device(), logical_cpus(2)[0]);
    EXPECT_EQ(components(strategy.run([&] { return v.device(); })), logical_cpus(2));
    std::vector<Device> updated;
    strategy.extended().update(v, [&](auto& copy) { updated.push_back(copy.device()); });
    EXPECT_EQ(updated, logical_cpus(2));
    EXPECT_EQ(v.component(1).device(), logical_cpus(2)[1]);
  }
  MirroredStrategy other = mirrored(2);
  const auto foreign = other.variable<float>(1.0F);
  expect_error(Code::failed_precondition, {"strategies cannot be mixed"},
               [&] { strategy.run([&] { (void)foreign.device(); }); });
}

TEST(Reading, goes_element_by_element) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.variable<float>(Floats{1, 2, 4});
  EXPECT_EQ(v + Floats({1, 2, 3}), (Floats{2, 4, 7}));
  EXPECT_EQ(Floats({1, 2, 3}) - v, (Floats{0, 0, -1}));
  EXPECT_EQ(8 / v, (Floats{8, 4, 2}));
  EXPECT_EQ((v * v).shape(), Shape{3});
  v.assign(v - v / 2);
  EXPECT_EQ(v.values(), (Floats{0.5, 1, 2}));
  expect_error(Code::invalid_argument, {"[3]", "[2]", "a number"}, [&] { (void)(v + Floats({1, 2})); });
  expect_error(Code::failed_precondition, {"3 elements"}, [&] { (void)(v + 1).value(); });
}

TEST(Reading, is_combined_with_a_tensor) {
  MirroredStrategy strategy = mirrored(2);
  const auto w = strategy.variable<float>({1, 2});
  const Tensor x = Tensor::from({3.0F, 4.0F});
  EXPECT_EQ(elements_of<float>(w * x + 1), (Floats{4, 9}));
  EXPECT_EQ(elements_of<float>(x / w), (Floats{3, 2}));
  EXPECT_EQ(elements_of<float>(x - (w + 1)), (Floats{1, 1}));
  EXPECT_EQ(elements_of<float>((w - 1) + w.component(1)), (Floats{1, 3}));
  const auto sum = strategy.sync_on_read_variable<float>({1, 2}, {.aggregation = VariableAggregation::sum});
  EXPECT_EQ(elements_of<float>(sum - x), (Floats{-1, 0}));
  expect_error(Code::invalid_argument, {"[2]", "[1]"}, [&] { (void)(w * Tensor::from({1.0F})); });
}

TEST(Reading, of_integers_wraps_and_divides_towards_zero) {
  const auto v = make_variable<std::int8_t>(std::vector<std::int8_t>{-128, 7, -7});
  using Bytes = std::vector<std::int8_t>;
  EXPECT_EQ(v - 1, (Bytes{127, 6, -8}));
  EXPECT_EQ(v / 2, (Bytes{-64, 3, -3}));
  EXPECT_EQ(v / -1, (Bytes{-128, -7, 7}));
  EXPECT_EQ(v * v, (Bytes{0, 49, 49}));
  expect_error(Code::invalid_argument, {"divided by zero"}, [&] { (void)(v / 0); });
  const auto least = make_variable<std::int64_t>(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(least / -1, std::numeric_limits<std::int64_t>::min());
  static_assert(!detail::ReadingArithmetic<MirroredVariable<std::int8_t>, double>, "a fraction would be lost");
  static_assert(!detail::ReadingArithmetic<MirroredVariable<float>, MirroredVariable<double>>);
  static_assert(!detail::ReadingArithmetic<float, float>);
}

TEST(Reading, of_narrow_floats_is_computed_in_f32) {
  const auto v = make_variable<BFloat16>(256.0F);
  EXPECT_EQ(float((v + 1.5F).value()), 258.0F);
  EXPECT_EQ(float((v / 3).value()), float(BFloat16(256.0F / 3.0F)));
}

}  // namespace
}  // namespace lockstep::test
