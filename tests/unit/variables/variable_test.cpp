// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Rules R6 and R7 for variables that are kept equal on write.

#include "unit/strategy/strategies.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Copies = std::vector<Floats>;

VariableOptions with(VariableAggregation aggregation) { return {.name = "v", .aggregation = aggregation}; }

TEST(Variable, has_one_copy_per_local_replica_with_one_initial_value) {
  MirroredStrategy strategy = mirrored(3);
  int calls = 0;
  std::mt19937 random(1);
  const auto variable = strategy.variable<float>(
      [&] {
        ++calls;
        return Floats{static_cast<float>(random()), 1, 2};
      },
      {.name = "w"});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(variable.component_count(), 3);
  EXPECT_EQ(copies(variable)[2], copies(variable)[0]);
  EXPECT_NE(variable.component(0).data(), variable.component(1).data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(variable.component(1).data()) % 64, 0U);
  EXPECT_EQ(variable.component_name(0), "w");
  EXPECT_EQ(variable.component_name(1), "w/replica_1");
  EXPECT_EQ(variable.shape(), Shape{3});
  EXPECT_TRUE(variable.trainable());
}

TEST(Variable, of_all_ranks_starts_with_what_rank_0_has) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const auto variable = strategy.variable<float>(strategy.communicator().rank() == 0 ? 10.0F : 20.0F);
    EXPECT_EQ(copies(variable), Copies(static_cast<std::size_t>(variable.component_count()), Floats{10}));
  });
}

TEST(Variable, whose_shape_differs_between_ranks_is_a_mismatch) {
  on_workers({1, 1}, [](Strategy& strategy) {
    expect_error(Code::mismatch, {"[2]", "[3]"},
                 [&] { (void)strategy.variable<float>(Floats(strategy.communicator().rank() == 0 ? 2 : 3)); });
  });
}

TEST(Variable, made_in_a_step_is_one_variable_with_the_first_replicas_value) {
  MirroredStrategy strategy = mirrored(2);
  const MirroredVariable<float> variable = strategy.run([&](ReplicaContext& replica) {
    const auto made = strategy.variable<float>(static_cast<float>(replica.replica_id_in_sync_group() + 1));
    EXPECT_EQ(made.value(), 1.0F);
    return made;
  });
  EXPECT_EQ(copies(variable), (Copies{{1}, {1}}));
  expect_error(Code::failed_precondition, {"foo", "bar"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      (void)strategy.variable<float>(1.0F, {.name = replica.local_replica() == 0 ? "foo" : "bar"});
    });
  });
}

TEST(Variable, refuses_the_mean_of_integers_and_other_element_types) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::invalid_argument, {"MEAN", "i32"},
               [&] { (void)strategy.variable<int>(1, with(VariableAggregation::mean)); });
  expect_error(Code::invalid_argument, {"f64"}, [&] { (void)strategy.variable<float>(Tensor::scalar(1.0)); });
  expect_error(Code::invalid_argument, {"aggregation 9"},
               [&] { (void)strategy.variable<float>(1.0F, with(static_cast<VariableAggregation>(9))); });
}

TEST(Variable, is_read_copy_by_copy_in_replica_context_and_the_first_elsewhere) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(0.0F);
  strategy.extended().update(variable, [](std::span<float> copy, float x) { copy[0] = x; }, PerReplica<float>({1, 2}));
  EXPECT_EQ(copies(variable), (Copies{{1}, {2}}));
  EXPECT_EQ(variable.value(), 1.0F);
  EXPECT_EQ(components(strategy.run([&] { return variable.value(); })), (Floats{1, 2}));
  EXPECT_EQ(components(strategy.run([&] { return elements_of<float>(variable.read()).front(); })), (Floats{1, 2}));
  EXPECT_EQ(elements_of<float>(variable.read()), (Floats{1}));
}

TEST(VariableWrite, outside_of_steps_goes_to_all_copies) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  variable.assign(6);
  variable.assign_add(1);
  EXPECT_EQ(copies(variable), (Copies{{7}, {7}}));
  const Scope scope = strategy.scope();
  variable.assign_sub(2.0F);
  EXPECT_EQ(copies(variable), (Copies{{5}, {5}}));
}

TEST(VariableWrite, in_a_step_applies_the_aggregate_to_all_copies) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<float> x({1, 2});
  const auto write = [&](VariableAggregation aggregation, auto how) {
    const auto variable = strategy.variable<float>(1.0F, with(aggregation));
    strategy.run([&](float value) { how(variable, value); }, x);
    EXPECT_EQ(copies(variable)[0], copies(variable)[1]);
    return variable.value();
  };
  const auto assign = [](const auto& v, float value) { v.assign(value); };
  const auto add = [](const auto& v, float value) { v.assign_add(value); };
  const auto subtract = [](const auto& v, float value) { v.assign_sub(value); };
  EXPECT_EQ(write(VariableAggregation::sum, assign), 3.0F);
  EXPECT_EQ(write(VariableAggregation::sum, add), 4.0F);
  EXPECT_EQ(write(VariableAggregation::sum, subtract), -2.0F);
  EXPECT_EQ(write(VariableAggregation::mean, assign), 1.5F);
  EXPECT_EQ(write(VariableAggregation::mean, add), 2.5F);
  EXPECT_EQ(write(VariableAggregation::mean, subtract), -0.5F);
  EXPECT_EQ(write(VariableAggregation::only_first_replica, assign), 1.0F);
  EXPECT_EQ(write(VariableAggregation::only_first_replica, add), 2.0F);
  EXPECT_EQ(write(VariableAggregation::only_first_replica, subtract), 0.0F);
}

TEST(VariableWrite, in_a_step_takes_the_first_replica_of_all_ranks) {
  on_workers({1, 2, 1}, [](Strategy& strategy) {
    const auto variable = strategy.variable<float>(0.0F, with(VariableAggregation::only_first_replica));
    strategy.run(
        [&](ReplicaContext& replica) { variable.assign(static_cast<float>(replica.replica_id_in_sync_group() + 2)); });
    for (const Floats& copy : copies(variable)) EXPECT_EQ(copy, (Floats{2}));
  });
}

TEST(VariableWrite, in_a_step_sums_over_uneven_ranks) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const auto variable = strategy.variable<float>(1.0F, with(VariableAggregation::sum));
    strategy.run([&](ReplicaContext& replica) {
      variable.assign_add(static_cast<float>(1 << replica.replica_id_in_sync_group()));
    });
    for (const Floats& copy : copies(variable)) EXPECT_EQ(copy, (Floats{8}));
  });
}

TEST(VariableWrite, in_a_step_without_aggregation_names_the_variable_and_three_fixes) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, with(VariableAggregation::none));
  expect_error(Code::invalid_argument,
               {"\"v\"", "aggregation", "sum, mean or only_first_replica", "merge_call", "replica.update"},
               [&] { strategy.run([&] { variable.assign(2.0F); }); });
  EXPECT_EQ(copies(variable), (Copies{{1}, {1}}));
}

TEST(VariableWrite, in_merge_call_is_that_of_cross_replica_context) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, with(VariableAggregation::sum));
  const auto seen = strategy.run([&](ReplicaContext& replica) {
    replica.merge_call([&](Strategy&) { variable.assign_add(10.0F); });
    return variable.value();
  });
  EXPECT_EQ(components(seen), (Floats{11, 11}));
}

TEST(VariableWrite, in_update_goes_to_that_copy_only) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  strategy.extended().update(
      variable, [&](std::span<float>, float x) { variable.assign_add(x); }, PerReplica<float>({1, 2}));
  EXPECT_EQ(copies(variable), (Copies{{2}, {3}}));
}

TEST(VariableWrite, of_another_shape_or_dtype_writes_nothing) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(Floats{1, 2}, {.name = "v"});
  expect_error(Code::invalid_argument, {"\"v\"", "f32[3]", "f32[2]"}, [&] { variable.assign(Floats{1, 2, 3}); });
  expect_error(Code::invalid_argument, {"f64[2]"}, [&] { variable.assign(std::vector<double>{1, 2}); });
  EXPECT_EQ(copies(variable), (Copies{{1, 2}, {1, 2}}));
}

TEST(VariableWrite, wraps_integers_and_widens_narrow_floats) {
  MirroredStrategy strategy = mirrored(2);
  const auto bytes = strategy.variable<std::int8_t>(std::int8_t{127}, with(VariableAggregation::sum));
  strategy.run([&] { bytes.assign_add(std::int8_t{1}); });
  EXPECT_EQ(bytes.value(), -127);
  const auto halves = strategy.variable<Float16>(Float16(1.0F));
  halves.assign_add(Float16(0.5F));
  EXPECT_EQ(float(halves.value()), 1.5F);
  const auto flags = strategy.variable<bool>(true);
  flags.assign(false);
  EXPECT_FALSE(flags.value());
  expect_error(Code::invalid_argument, {"bool"}, [&] { flags.assign_add(true); });
}

TEST(Variable, made_outside_every_scope_is_plain) {
  const auto plain = get_strategy().variable<float>(4.0F, {.name = "p"});
  EXPECT_EQ(plain.component_count(), 1);
  plain.assign_add(1.0F);
  MirroredStrategy strategy = mirrored(2);
  EXPECT_FALSE(strategy.extended().variable_created_in_scope(plain));
  EXPECT_EQ(components(strategy.run([&] { return plain.value(); })), (Floats{5, 5}));
  expect_error(Code::failed_precondition, {"\"p\"", "create it through that strategy"},
               [&] { strategy.run([&] { plain.assign(1.0F); }); });
  expect_error(Code::invalid_argument, {"\"p\"", "own strategy"},
               [&] { strategy.extended().update(plain, [](std::span<float>) {}); });
}

TEST(Variable, of_one_strategy_is_not_used_in_anothers_scope) {
  MirroredStrategy a = mirrored(2);
  MirroredStrategy b = mirrored(2);
  const auto variable = a.variable<float>(1.0F, {.name = "v"});
  EXPECT_TRUE(a.extended().variable_created_in_scope(variable));
  EXPECT_FALSE(b.extended().variable_created_in_scope(variable));
  expect_error(Code::failed_precondition, {"\"v\"", "mixed"}, [&] { b.run([&] { (void)variable.value(); }); });
}

TEST(Variable, outlives_its_strategy) {
  std::optional<MirroredVariable<float>> variable;
  {
    MirroredStrategy strategy = mirrored(2);
    variable = strategy.variable<float>(1.0F);
  }
  variable->assign_add(1.0F);
  EXPECT_EQ(copies(*variable), (Copies{{2}, {2}}));
}

TEST(Update, slices_arguments_and_returns_mirrored_results) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  const auto other = strategy.variable<float>(5.0F);
  const Mirrored<float> result = strategy.extended().update(
      variable,
      [](std::span<float> copy, float a, const float& b, const MirroredVariable<float>& w) {
        copy[0] += a * b;
        return copy[0] + w.value();
      },
      2.0F, PerReplica<float>({3, 4}), other);
  EXPECT_EQ(copies(variable), (Copies{{7}, {9}}));
  EXPECT_EQ(result.component(0), 12.0F);
  EXPECT_EQ(result.component(1), 14.0F);
}

TEST(Update, of_an_untyped_variable_gives_views) {
  MirroredStrategy strategy = mirrored(2);
  const Variable variable = strategy.variable(Tensor::from(std::vector<int>{1, 2}));
  strategy.extended().update(variable, [](TensorView copy) { static_cast<int*>(copy.data)[1] = 7; });
  EXPECT_EQ(elements_of<int>(variable.component(1)), (std::vector<int>{1, 7}));
}

TEST(Update, of_a_replicas_own_copy_runs_at_the_same_time_on_all) {
  MirroredStrategy strategy = mirrored(4);
  const auto variable = strategy.variable<float>(1.0F);
  std::atomic<int> inside{0};
  strategy.run([&](ReplicaContext& replica) {
    const float total = replica.all_reduce(ReduceOp::sum, 2.0F);
    const float after = replica.update(
        variable,
        [&](std::span<float> copy, float x) {
          ++inside;
          while (inside < 4) std::this_thread::yield();
          copy[0] += x;
          return copy[0];
        },
        total);
    EXPECT_EQ(after, 9.0F);
    EXPECT_EQ(variable.value(), 9.0F);
  });
  EXPECT_EQ(copies(variable), Copies(4, Floats{9}));
}

TEST(Update, is_the_only_place_where_copies_are_writable) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, {.name = "v"});
  expect_error(Code::failed_precondition, {"\"v\"", "inside update only"},
               [&] { (void)variable.updatable_component(); });
  expect_error(Code::failed_precondition, {"inside update only"},
               [&] { strategy.run([&] { (void)variable.updatable_component(); }); });
}

}  // namespace
}  // namespace lockstep::test
