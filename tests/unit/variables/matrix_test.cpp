// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of rule R6: which copies are read and written in which context.

#include "unit/strategy/strategies.hpp"

#include <cmath>
#include <cstdint>
#include <mutex>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Copies = std::vector<Floats>;

float id_of(const ReplicaContext& replica) { return static_cast<float>(replica.replica_id_in_sync_group()); }

TEST(Variable, is_read_copy_by_copy_in_replica_context_and_the_first_elsewhere) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(0.0F);
  strategy.extended().update(
      variable, [](const auto& copy, float x) { copy.updatable_component()[0] = x; }, PerReplica<float>({1, 2}));
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
    const auto variable = strategy.variable<float>(1.0F, aggregated_by(aggregation));
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
    const auto variable = strategy.variable<float>(0.0F, aggregated_by(VariableAggregation::only_first_replica));
    strategy.run(
        [&](ReplicaContext& replica) { variable.assign(static_cast<float>(replica.replica_id_in_sync_group() + 2)); });
    for (const Floats& copy : copies(variable)) EXPECT_EQ(copy, (Floats{2}));
  });
}

TEST(VariableWrite, in_a_step_sums_over_uneven_ranks) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const auto variable = strategy.variable<float>(1.0F, aggregated_by(VariableAggregation::sum));
    strategy.run([&](ReplicaContext& replica) {
      variable.assign_add(static_cast<float>(1 << replica.replica_id_in_sync_group()));
    });
    for (const Floats& copy : copies(variable)) EXPECT_EQ(copy, (Floats{8}));
  });
}

TEST(VariableWrite, in_a_step_without_aggregation_names_the_variable_and_three_fixes) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, aggregated_by(VariableAggregation::none));
  expect_error(Code::invalid_argument,
               {"\"v\"", "aggregation", "sum, mean or only_first_replica", "merge_call", "replica.update"},
               [&] { strategy.run([&] { variable.assign(2.0F); }); });
  EXPECT_EQ(copies(variable), (Copies{{1}, {1}}));
}

TEST(VariableWrite, in_merge_call_is_that_of_cross_replica_context) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, aggregated_by(VariableAggregation::sum));
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
      variable, [&](const auto&, float x) { variable.assign_add(x); }, PerReplica<float>({1, 2}));
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
  const auto bytes = strategy.variable<std::int8_t>(std::int8_t{127}, aggregated_by(VariableAggregation::sum));
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

TEST(VariableWrite, of_a_plain_number_counts_for_every_replica) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, aggregated_by(VariableAggregation::sum));
  strategy.run([&] { variable.assign(5); });
  EXPECT_EQ(copies(variable), (Copies{{10}, {10}}));
  const auto halves = strategy.variable<Float16>(1.0F, aggregated_by(VariableAggregation::sum));
  strategy.run([&] { halves.assign_add(0.25); });
  EXPECT_EQ(float(halves.value()), 1.5F);
}

TEST(VariableWrite, returns_the_variable) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, aggregated_by(VariableAggregation::sum));
  const Variable same = strategy.run([&] { return variable.assign_add(1); });
  EXPECT_TRUE(same == variable);
}

TEST(VariableWrite, of_different_variables_by_the_replicas_is_refused) {
  MirroredStrategy strategy = mirrored(2);
  const auto a = strategy.variable<float>(0.0F, {.name = "a", .aggregation = VariableAggregation::sum});
  const auto b = strategy.variable<float>(0.0F, {.name = "b", .aggregation = VariableAggregation::sum});
  expect_error(Code::failed_precondition, {"variable \"a\"", "variable \"b\"", "same call"}, [&] {
    strategy.run([&](ReplicaContext& replica) { (replica.local_replica() == 0 ? a : b).assign(1); });
  });
  expect_error(Code::failed_precondition, {"variable \"a\"", "all_reduce"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      if (replica.local_replica() == 0) {
        a.assign(1);
      } else {
        (void)replica.all_reduce(ReduceOp::sum, 1.0F);
      }
    });
  });
  EXPECT_EQ(copies(a), (Copies{{0}, {0}}));
  on_workers({1, 1}, [](Strategy& workers) {
    const auto c = workers.variable<float>(0.0F, {.name = "c", .aggregation = VariableAggregation::sum});
    const auto d = workers.variable<float>(0.0F, {.name = "d", .aggregation = VariableAggregation::sum});
    expect_error(Code::mismatch, {"c", "d"}, [&] { workers.run([&] { (workers.is_chief() ? c : d).assign(1); }); });
  });
}

TEST(VariableWrite, of_a_wrong_value_on_one_rank_is_an_error_on_all) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const bool first = strategy.is_chief();
    const auto variable = strategy.variable<float>(Floats{1, 2}, aggregated_by(VariableAggregation::sum));
    const auto wrong_on_rank_1 = [&] { variable.assign(Floats(first ? 2 : 3)); };
    if (first) {
      wrong_on_rank_1();  // a local call: this rank gets the error at its next collective
      expect_error(Code::unavailable, {"f32[3]", "f32[2]"}, [&] { (void)strategy.variable<float>(1.0F); });
    } else {
      expect_error(Code::invalid_argument, {"\"v\"", "f32[3]", "f32[2]"}, wrong_on_rank_1);
    }
    expect_error(first ? Code::unavailable : Code::invalid_argument, {"f32[3]"},
                 [&] { strategy.run(wrong_on_rank_1); });
    EXPECT_EQ(strategy.variable<float>(2.0F).value(), 2.0F);
  });
}

TEST(VariableRead, writes_to_a_target_of_the_same_shape) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(Floats{1, 2}, {.name = "v"});
  Tensor target(DType::f32, Shape{2});
  variable.read_to(target.view());
  EXPECT_EQ(elements_of<float>(target), (Floats{1, 2}));
  EXPECT_EQ(variable.values(), (Floats{1, 2}));
  Tensor wrong(DType::f32, Shape{1, 2});
  expect_error(Code::invalid_argument, {"read_to", "f32[1, 2]", "f32[2]"}, [&] { variable.read_to(wrong.view()); });
  expect_error(Code::failed_precondition, {"\"v\"", "2 elements", "values()"}, [&] { (void)variable.value(); });
}

TEST(SyncOnRead, is_written_by_each_replica_and_joined_by_reading) {
  const auto read = [](VariableAggregation aggregation) {
    MirroredStrategy strategy = mirrored(2);
    const auto variable = strategy.sync_on_read_variable<float>(1.0F, aggregated_by(aggregation));
    const auto seen = strategy.run([&](ReplicaContext& replica) {
      variable.assign_add(2 + replica.replica_id_in_sync_group());
      EXPECT_EQ(variable.elements().front(), variable.value());
      return variable.value();
    });
    EXPECT_EQ(components(seen), (Floats{3, 4}));
    EXPECT_EQ(copies(variable), (Copies{{3}, {4}}));
    strategy.run([&](ReplicaContext& replica) {
      replica.merge_call([&](Strategy&) { EXPECT_EQ(elements_of<float>(variable.read()).size(), 1U); });
    });
    EXPECT_EQ(elements_of<float>(variable.read()), (Floats{variable.value()}));
    EXPECT_EQ(variable.values(), (Floats{variable.value()}));
    return variable.value();
  };
  EXPECT_EQ(read(VariableAggregation::sum), 7.0F);
  EXPECT_EQ(read(VariableAggregation::mean), 3.5F);
  EXPECT_EQ(read(VariableAggregation::only_first_replica), 3.0F);
}

TEST(SyncOnRead, of_uneven_ranks_is_joined_over_all_of_them) {
  on_workers({2, 1, 1}, [](Strategy& strategy) {
    const auto sum = strategy.sync_on_read_variable<float>(0.0F, aggregated_by(VariableAggregation::sum));
    const auto mean = strategy.sync_on_read_variable<float>(0.0F, aggregated_by(VariableAggregation::mean));
    const auto first =
        strategy.sync_on_read_variable<float>(0.0F, aggregated_by(VariableAggregation::only_first_replica));
    strategy.run([&](ReplicaContext& replica) {
      for (const auto& variable : {sum, mean, first}) variable.assign(id_of(replica) + 5);
    });
    EXPECT_EQ(sum.value(), 26.0F);
    EXPECT_EQ(mean.value(), 6.5F);
    EXPECT_EQ(first.value(), 5.0F);
    first.assign_add(1);
    EXPECT_EQ(first.value(), 6.0F);
    sum.assign(8);
    for (const Floats& copy : copies(sum)) EXPECT_EQ(copy, (Floats{2}));
    EXPECT_EQ(sum.value(), 8.0F);
  });
}

TEST(SyncOnRead, has_the_same_bits_for_every_layout) {
  std::mutex mutex;
  std::vector<Floats> results;
  for (const auto& layout : std::vector<std::vector<int>>{{5}, {2, 3}, {3, 1, 1}, {1, 1, 1, 1, 1}}) {
    on_workers(layout, [&](Strategy& strategy) {
      const auto sum = strategy.sync_on_read_variable<float>(Floats(3), aggregated_by(VariableAggregation::sum));
      strategy.run([&](ReplicaContext& replica) {
        Floats rough(3);
        for (std::size_t k = 0; k < 3; ++k) rough[k] = std::sin(17 * id_of(replica)) * std::pow(10.0F, float(k) * 3);
        sum.assign_add(rough);
      });
      const Floats total = sum.values();
      const std::lock_guard lock(mutex);
      results.push_back(total);
    });
  }
  for (const Floats& result : results) EXPECT_EQ(result, results.front());
}

TEST(SyncOnRead, keeps_integer_totals_through_an_assignment) {
  const auto share = [](std::int64_t total, const std::vector<int>& layout) {
    std::mutex mutex;
    std::vector<std::int64_t> shares(5);
    on_workers(layout, [&](Strategy& strategy) {
      const auto count = strategy.sync_on_read_variable<std::int64_t>(0, aggregated_by(VariableAggregation::sum));
      count.assign(total);
      EXPECT_EQ(count.value(), total);
      const auto mine = strategy.run([&] { return count.value(); });
      const std::lock_guard lock(mutex);
      for (int i = 0; i < mine.size(); ++i) {
        shares[static_cast<std::size_t>(mine.first_replica() + i)] = mine.component(i);
      }
    });
    return shares;
  };
  using Shares = std::vector<std::int64_t>;
  EXPECT_EQ(share(7, {2, 3}), (Shares{2, 2, 1, 1, 1}));
  EXPECT_EQ(share(-7, {4, 1}), (Shares{-2, -2, -1, -1, -1}));
  EXPECT_EQ(share(-9223372036854775807 - 1, {5})[4], -1844674407370955161);
  MirroredStrategy strategy = mirrored(3);
  const auto bytes =
      strategy.sync_on_read_variable<std::uint8_t>(std::uint8_t{0}, aggregated_by(VariableAggregation::sum));
  bytes.assign(255);
  EXPECT_EQ(bytes.value(), 255);
  const auto small =
      strategy.sync_on_read_variable<std::int8_t>(std::int8_t{0}, aggregated_by(VariableAggregation::sum));
  small.assign(-128);
  EXPECT_EQ(small.value(), -128);
}

TEST(SyncOnRead, is_written_as_a_whole_outside_of_steps) {
  MirroredStrategy strategy = mirrored(2);
  const auto written = [&](VariableAggregation aggregation, auto how) {
    const auto variable = strategy.sync_on_read_variable<float>(0.0F, aggregated_by(aggregation));
    strategy.run([&](ReplicaContext& replica) { variable.assign(1 + 2 * id_of(replica)); });
    how(variable);
    return copies(variable);
  };
  const auto assign = [](const auto& v) { v.assign(6); };
  const auto add = [](const auto& v) { v.assign_add(2); };
  const auto subtract = [](const auto& v) { v.assign_sub(2); };
  EXPECT_EQ(written(VariableAggregation::sum, assign), (Copies{{3}, {3}}));
  for (const auto aggregation :
       {VariableAggregation::none, VariableAggregation::mean, VariableAggregation::only_first_replica}) {
    EXPECT_EQ(written(aggregation, assign), (Copies{{6}, {6}}));
    EXPECT_EQ(written(aggregation, add), (Copies{{3}, {5}}));
    EXPECT_EQ(written(aggregation, subtract), (Copies{{-1}, {1}}));
  }
}

TEST(SyncOnRead, refuses_to_add_to_a_sum_outside_of_steps) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.sync_on_read_variable<float>(1.0F, aggregated_by(VariableAggregation::sum));
  expect_error(Code::invalid_argument, {"assign_add", "\"v\"", "SUM", "in the step function"},
               [&] { variable.assign_add(1); });
  expect_error(Code::invalid_argument, {"assign_sub", "SUM"}, [&] {
    strategy.run([&](ReplicaContext& replica) { replica.merge_call([&](Strategy&) { variable.assign_sub(1); }); });
  });
  EXPECT_EQ(copies(variable), (Copies{{1}, {1}}));
  OneDeviceStrategy one(Device{});
  const auto only = one.sync_on_read_variable<float>(1.0F, aggregated_by(VariableAggregation::sum));
  only.assign(6);
  only.assign_add(1);
  EXPECT_EQ(only.value(), 7.0F);
}

TEST(SyncOnRead, without_aggregation_is_read_in_steps_only) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const auto variable = strategy.sync_on_read_variable<float>(1.0F, {.name = "v"});
    for (int round = 0; round < 3; ++round) {
      expect_error(Code::invalid_argument, {"\"v\"", "aggregation is none", "only_first_replica", "components"},
                   [&] { (void)variable.value(); });
      EXPECT_EQ(strategy.run([&] { return variable.value(); }).component(0), 1.0F);
    }
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })), 3);
  });
}

TEST(SyncOnRead, has_no_memory_of_its_value_outside_of_steps) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.sync_on_read_variable<float>(1.0F, aggregated_by(VariableAggregation::sum));
  expect_error(Code::failed_precondition, {"\"v\"", "aggregate", "read()"}, [&] { (void)variable.elements(); });
  const Scope scope = strategy.scope();
  expect_error(Code::failed_precondition, {"read()"}, [&] { (void)variable.view(); });
}

TEST(SyncOnRead, sees_its_own_writes_at_once) {
  MirroredStrategy strategy = mirrored(2);
  const auto v = strategy.sync_on_read_variable<float>(0.0F, aggregated_by(VariableAggregation::mean));
  const auto last = strategy.run([&](ReplicaContext& replica) {
    v.assign(v * 2 + id_of(replica) + 1);
    v.assign_add(v);
    return v.value();
  });
  EXPECT_EQ(components(last), (Floats{2, 4}));
  EXPECT_EQ(v.value(), 3.0F);
}

}  // namespace
}  // namespace lockstep::test
