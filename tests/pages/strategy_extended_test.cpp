// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// tf.distribute.StrategyExtended, TensorFlow 2.0.

#include "pages/samples.hpp"

#include <algorithm>
#include <tuple>

namespace lockstep::test {
namespace {

/// (x, a, v): the page's x is one object for both replicas and stays one; here types decide.
TEST(StrategyExtendedPage, wrapped_values_are_unwrapped_and_merged) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto v = strategy.variable<float>(1.0F);
  const PerReplica<int> w({10, 20});
  const auto [x, a, variable] = strategy.experimental_run_v2([&](int w_i) { return std::tuple(7, w_i + 1, v); }, w);
  EXPECT_EQ(printed(x), "PerReplica:{0: 7, 1: 7}");
  EXPECT_EQ(printed(a), "PerReplica:{0: 11, 1: 21}");
  EXPECT_EQ(variable, v);
}

TEST(StrategyExtendedPage, replica_context_and_cross_replica_context) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  EXPECT_NE(get_replica_context(), nullptr);  // the default single replica context
  const Scope scope = strategy.scope();
  EXPECT_TRUE(in_cross_replica_context());
  const auto v = strategy.variable<float>(1.0F);
  strategy.experimental_run_v2([&](ReplicaContext& replica) {
    EXPECT_FALSE(in_cross_replica_context());
    replica.merge_call([&](Strategy& current) {
      EXPECT_TRUE(in_cross_replica_context());
      current.extended().update(v, [](const auto&) { EXPECT_EQ(get_replica_context(), nullptr); });
    });
  });
}

TEST(StrategyExtendedPage, sync_on_read_variables) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto v = strategy.sync_on_read_variable<double>(1.0, {.name = "v", .aggregation = VariableAggregation::mean});
  const auto step = [&](double update) {
    // sample StrategyExtended 1
    v.assign(0.9 * v + 0.1 * update);
    // end of sample
  };
  strategy.run(step, PerReplica<double>({2.0, 4.0}));
  EXPECT_EQ(v.value(), (0.9 * 1.0 + 0.1 * 2.0 + (0.9 * 1.0 + 0.1 * 4.0)) / 2);
}

TEST(StrategyExtendedPage, locality) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto variable = strategy.variable<float>(0.0F);
  const PerReplica<float> per_replica({1, 2});
  const Mirrored<float> of_variables = strategy.extended().reduce_to(ReduceOp::sum, per_replica, variable);
  EXPECT_EQ(printed(of_variables), "Mirrored:{0: 3, 1: 3}");
  const auto mirrored =
      strategy.run([](ReplicaContext& r, float x) { return r.all_reduce(ReduceOp::sum, x); }, per_replica);
  EXPECT_EQ(printed(mirrored), "PerReplica:{0: 3, 1: 3}");
}

TEST(StrategyExtendedPage, how_to_update_a_variable) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto a = strategy.variable<float>(10.0F);
  const auto b = strategy.variable<float>(20.0F);
  const PerReplica<float> updates({1, 2});
  strategy.experimental_run_v2(
      [&](float update) {
        // 1. a list of (update, variable); 2. merge_call
        get_replica_context()->merge_call(
            [](Strategy& current, const auto& pairs) {
              const auto sums = current.extended().batch_reduce_to(ReduceOp::sum, pairs);  // 3.
              for (std::size_t k = 0; k < pairs.size(); ++k) {
                current.extended().update(  // 4.
                    pairs[k].second, [](auto& v, float sum) { v.assign_sub(sum); }, sums[k]);
              }
            },
            std::vector{std::pair(update, a), std::pair(2 * update, b)});
      },
      updates);
  EXPECT_EQ(copies(a), (std::vector<std::vector<float>>{{7}, {7}}));
  EXPECT_EQ(copies(b), (std::vector<std::vector<float>>{{14}, {14}}));
}

TEST(StrategyExtendedPage, assign_does_the_same_with_an_aggregation) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto a = strategy.variable<float>(10.0F, {.name = "a", .aggregation = VariableAggregation::sum});
  strategy.run([&](float update) { a.assign_sub(update); }, PerReplica<float>({1, 2}));
  EXPECT_EQ(copies(a), (std::vector<std::vector<float>>{{7}, {7}}));
}

TEST(StrategyExtendedPage, colocate_vars_with) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  // sample StrategyExtended 2
  const auto scope = strategy.scope();
  const auto var1 = make_variable<float>(1.0F);
  const auto colocate = strategy.extended().colocate_vars_with(var1);
  // var2 and var3 will be created on the same device(s) as var1
  const auto var2 = make_variable<float>(2.0F);
  const auto var3 = make_variable<float>(3.0F);

  const auto fn = [](auto& v1, auto& v2, auto& v3) {
    // operates on v1 from var1, v2 from var2, and v3 from var3
    v1.assign_add(v2 * v3);
  };

  // `fn` runs on every device `var1` is on, `var2` and `var3` will be there
  // too.
  strategy.extended().update(var1, fn, var2, var3);
  // end of sample
  EXPECT_EQ(copies(var1), (std::vector<std::vector<float>>{{7}, {7}}));
}

TEST(StrategyExtendedPage, non_slot_devices) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const Scope scope = strategy.scope();
  const std::vector<Variable> var_list{make_variable<float>(1.0F)};
  const auto step = [&] {
    const ColocateScope colocate =
        strategy.extended().colocate_vars_with(strategy.extended().non_slot_devices(var_list));
    return make_variable<float>(2.0F);
  }();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(step.component(i).device(), var_list[0].component(i).device());
}

TEST(StrategyExtendedPage, update) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto var = strategy.variable<float>(1.0F);
  const auto fn = [](auto& v, float arg) {
    v.assign_add(arg);
    return v.value();
  };
  const Mirrored<float> args({2, 2});
  const auto update = [&] {
    // sample StrategyExtended 3
    // args will be unwrapped if they are mirrored.
    return strategy.extended().update(var, fn, args);
    // end of sample
  };
  EXPECT_EQ(printed(update()), "Mirrored:{0: 3, 1: 3}");
  EXPECT_EQ(strategy.extended().update(ungrouped, var, fn, 1.0F), (std::vector<float>{4, 4}));
}

TEST(StrategyExtendedPage, value_container) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto v = strategy.variable<float>(1.0F);
  for (const VariableComponent& value : strategy.experimental_local_results(v)) {
    EXPECT_EQ(strategy.extended().value_container(value), v);
    const auto results = strategy.experimental_local_results(strategy.extended().value_container(value));
    EXPECT_NE(std::ranges::find(results, value), results.end());
  }
  EXPECT_EQ(strategy.extended().value_container(5), 5);
}

TEST(StrategyExtendedPage, variable_created_in_scope) {
  // sample StrategyExtended 4
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto scope = strategy.scope();
  const auto v = make_variable<float>(1.0F);
  const bool created_in_scope = strategy.extended().variable_created_in_scope(v);  // true
  // end of sample
  EXPECT_TRUE(created_in_scope);
}

TEST(StrategyExtendedPage, variable_created_outside_of_scope) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  // sample StrategyExtended 5
  const auto v = make_variable<float>(1.0F);
  const bool created_in_scope = strategy.extended().variable_created_in_scope(v);  // false
  // end of sample
  EXPECT_FALSE(created_in_scope);
}

}  // namespace
}  // namespace lockstep::test
