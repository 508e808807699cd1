// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Creation of variables (rule R6): one value for all replicas, one call of the initialiser, names, options.

#include "unit/strategy/strategies.hpp"

#include <atomic>
#include <cstdint>
#include <random>
#include <string>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Copies = std::vector<Floats>;

VariableOptions with(VariableAggregation aggregation) { return {.name = "v", .aggregation = aggregation}; }
VariableOptions with(VariableSynchronization synchronization) {
  return {.name = "v", .synchronization = synchronization};
}

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

TEST(Variable, of_all_ranks_starts_with_the_value_of_rank_0) {
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
  expect_error(Code::failed_precondition, {"replica 1 (cpu:1) creates \"bar\"", "replica 0 (cpu:0) creates \"foo\""},
               [&] {
                 strategy.run([&](ReplicaContext& replica) {
                   (void)strategy.variable<float>(1.0F, {.name = replica.local_replica() == 0 ? "foo" : "bar"});
                 });
               });
}

TEST(Variable, refuses_the_mean_of_integers_the_sum_of_bools_and_other_element_types) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::invalid_argument, {"\"v\"", "SUM", "bool"},
               [&] { (void)strategy.variable<bool>(true, aggregated_by(VariableAggregation::sum)); });
  expect_error(Code::invalid_argument, {"\"v\"", "SUM", "bool"},
               [&] { (void)strategy.sync_on_read_variable<bool>(true, aggregated_by(VariableAggregation::sum)); });
  expect_error(Code::invalid_argument, {"MEAN", "i32"},
               [&] { (void)strategy.variable<int>(1, with(VariableAggregation::mean)); });
  expect_error(Code::invalid_argument, {"f64"}, [&] { (void)strategy.variable<float>(Tensor::scalar(1.0)); });
  expect_error(Code::invalid_argument, {"aggregation 9"},
               [&] { (void)strategy.variable<float>(1.0F, with(static_cast<VariableAggregation>(9))); });
}

TEST(Variable, is_on_the_device_of_each_replica) {
  MirroredStrategy strategy = mirrored(2);
  const Variable variable = strategy.variable(Tensor::scalar(1));
  EXPECT_EQ(to_string(variable.component(0).device()), "cpu:0");
  EXPECT_EQ(to_string(variable.component(1).device()), "cpu:1");
}

TEST(Variable, made_by_a_function_in_a_step_calls_it_once) {
  MirroredStrategy strategy = mirrored(3);
  std::atomic<int> calls{0};
  const MirroredVariable<float> variable = strategy.run(
      [&] { return strategy.variable<float>([&] { return static_cast<float>(++calls); }, {.name = "v"}); });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(copies(variable), Copies(3, Floats{1}));
}

TEST(Variable, made_in_a_step_over_ranks_has_the_value_of_replica_0) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const SyncOnReadVariable<float> variable = strategy.run([&](ReplicaContext& replica) {
      return strategy.sync_on_read_variable<float>(static_cast<float>(7 + replica.replica_id_in_sync_group()));
    });
    for (const Floats& copy : copies(variable)) EXPECT_EQ(copy, (Floats{7}));
  });
}

TEST(Variable, whose_initialiser_throws_on_one_rank_is_an_error_on_all) {
  on_workers({1, 2}, [](Strategy& strategy) {
    EXPECT_EQ(strategy.variable<float>(2.0F).value(), 2.0F);
    const int rank = strategy.communicator().rank();
    try {
      (void)strategy.variable<float>([&] {
        if (rank == 1) throw std::runtime_error("no data for v");
        return 1.0F;
      });
      ADD_FAILURE() << "no error on rank " << rank;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("no data for v"), std::string::npos) << error.what();
    }
    EXPECT_EQ(strategy.variable<float>(2.0F).value(), 2.0F);
  });
}

TEST(Variable, made_in_a_step_is_matched_by_its_name_without_numbers) {
  MirroredStrategy strategy = mirrored(2);
  const MirroredVariable<float> variable = strategy.run([&](ReplicaContext& replica) {
    return strategy.variable<float>(1.0F, {.name = "layer_" + std::to_string(replica.local_replica()) + "/w"});
  });
  EXPECT_EQ(variable.name(), "layer_0/w");
  EXPECT_EQ(canonical_name("foo_1/bar_1/baz"), "foo/bar/baz");
  EXPECT_EQ(canonical_name("foo_1"), "foo");
  EXPECT_EQ(canonical_name("foo_1_22/b_3"), "foo_1/b");
  for (const char* const same : {"foo1", "foo_a", "foo_1:0", "foo_", "12", "", "a//b"}) {
    EXPECT_EQ(canonical_name(same), same);
  }
}

TEST(Variable, made_in_a_step_needs_one_shape_and_one_set_of_options) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::mismatch, {"\"v\"", "f32[3] on replica 1", "f32[2] on replica 0"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      (void)strategy.variable<float>(Floats(replica.local_replica() == 0 ? 2 : 3), {.name = "v"});
    });
  });
  expect_error(Code::mismatch, {"\"v\"", "replica 1 gives", "aggregation mean", "aggregation sum"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      (void)strategy.variable<float>(
          1.0F, with(replica.local_replica() == 0 ? VariableAggregation::sum : VariableAggregation::mean));
    });
  });
  EXPECT_EQ(strategy.variable<float>(2.0F).value(), 2.0F);
}

TEST(Variable, of_other_options_on_another_rank_is_a_mismatch) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const bool first = strategy.communicator().rank() == 0;
    expect_error(Code::mismatch,
                 {"rank 0", "the creation of the (on_write, sum) variable \"v\"", "rank 1",
                  "the creation of the (on_write, mean) variable \"v\""},
                 [&] {
                   (void)strategy.variable<float>(1.0F,
                                                  with(first ? VariableAggregation::sum : VariableAggregation::mean));
                 });
    EXPECT_EQ(strategy.variable<float>(2.0F).value(), 2.0F);
  });
}

TEST(Variable, refuses_synchronizations_that_strategies_do_not_support) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::invalid_argument, {"\"v\"", "synchronization NONE", "on_write or on_read"},
               [&] { (void)strategy.variable<float>(1.0F, with(VariableSynchronization::none)); });
  expect_error(Code::invalid_argument, {"synchronization NONE"},
               [&] { (void)strategy.sync_on_read_variable<float>(1.0F, with(VariableSynchronization::none)); });
  expect_error(Code::invalid_argument, {"synchronization 7 is not one of auto, on_write, on_read"},
               [&] { (void)strategy.variable<float>(1.0F, with(static_cast<VariableSynchronization>(7))); });
  expect_error(Code::invalid_argument, {"synchronization NONE"}, [&] {
    strategy.run([&] { (void)strategy.variable<float>(1.0F, with(VariableSynchronization::none)); });
  });
}

TEST(Variable, refused_by_one_rank_is_an_error_on_all) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const bool first = strategy.communicator().rank() == 0;
    EXPECT_EQ(strategy.variable<float>(2.0F).value(), 2.0F);
    expect_error(first ? Code::unavailable : Code::invalid_argument, {"synchronization NONE"}, [&] {
      (void)strategy.variable<float>(1.0F,
                                     with(first ? VariableSynchronization::on_write : VariableSynchronization::none));
    });
    for (int round = 0; round < 3; ++round) {
      expect_error(Code::invalid_argument, {"aggregation 9"},
                   [&] { (void)strategy.variable<float>(1.0F, with(static_cast<VariableAggregation>(9))); });
      EXPECT_EQ(strategy.variable<float>(2.0F).value(), 2.0F);
      EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })), 3);
    }
  });
}

TEST(Variable, of_the_other_kind_names_the_call_that_makes_it) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::invalid_argument, {"\"v\"", "on_read", "sync_on_read_variable<T>"},
               [&] { (void)strategy.variable<float>(1.0F, with(VariableSynchronization::on_read)); });
  expect_error(Code::invalid_argument, {"\"v\"", "on_write", "variable<T>"},
               [&] { (void)strategy.sync_on_read_variable<float>(1.0F, with(VariableSynchronization::on_write)); });
  const Variable made = strategy.variable(Tensor::scalar(1.0F), with(VariableSynchronization::on_read));
  EXPECT_EQ(made.synchronization(), VariableSynchronization::on_read);
  EXPECT_EQ(SyncOnReadVariable<float>(made).name(), "v");
  expect_error(Code::invalid_argument, {"\"v\"", "SyncOnReadVariable, not a MirroredVariable"},
               [&] { (void)MirroredVariable<float>(made); });
  expect_error(Code::invalid_argument, {"f32, not f64"}, [&] { (void)SyncOnReadVariable<double>(made); });
}

TEST(Variable, is_trainable_unless_synchronized_on_read) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_TRUE(strategy.variable<float>(1.0F).trainable());
  EXPECT_FALSE(strategy.variable<float>(1.0F, {.trainable = false}).trainable());
  EXPECT_FALSE(strategy.sync_on_read_variable<float>(1.0F).trainable());
  EXPECT_TRUE(strategy.sync_on_read_variable<float>(1.0F, {.trainable = true}).trainable());
  EXPECT_EQ(strategy.variable<float>(1.0F).synchronization(), VariableSynchronization::on_write);
}

TEST(Variable, without_a_type_is_made_by_a_function_too) {
  MirroredStrategy strategy = mirrored(2);
  const Variable variable = strategy.variable([] { return Tensor::from(std::vector<int>{1, 2}); });
  EXPECT_EQ(elements_of<int>(variable.component(1)), (std::vector<int>{1, 2}));
}

TEST(VariableNames, are_read_in_any_case_of_letters) {
  EXPECT_EQ(parse_variable_synchronization("ON_READ"), VariableSynchronization::on_read);
  EXPECT_EQ(parse_variable_synchronization("auto"), VariableSynchronization::automatic);
  EXPECT_EQ(parse_variable_aggregation("Only_First_Replica"), VariableAggregation::only_first_replica);
  EXPECT_EQ(parse_variable_aggregation("MEAN"), VariableAggregation::mean);
  for (const auto value : {VariableSynchronization::automatic, VariableSynchronization::none,
                           VariableSynchronization::on_write, VariableSynchronization::on_read}) {
    EXPECT_EQ(parse_variable_synchronization(to_string(value)), value);
  }
  for (const auto value : {VariableAggregation::none, VariableAggregation::sum, VariableAggregation::mean,
                           VariableAggregation::only_first_replica}) {
    EXPECT_EQ(parse_variable_aggregation(to_string(value)), value);
  }
  expect_error(Code::invalid_argument, {"\"BOGUS\"", "auto, none, on_write, on_read"},
               [] { (void)parse_variable_synchronization("BOGUS"); });
  expect_error(Code::invalid_argument, {"\"\"", "none, sum, mean, only_first_replica"},
               [] { (void)parse_variable_aggregation(""); });
  EXPECT_EQ(to_string(static_cast<VariableSynchronization>(9)), "unknown");
}

TEST(VariableAggregation, is_a_reduction_if_it_is_sum_or_mean) {
  EXPECT_EQ(reduce_op_of(VariableAggregation::sum), ReduceOp::sum);
  EXPECT_EQ(reduce_op_of(VariableAggregation::mean), ReduceOp::mean);
  for (const auto value : {VariableAggregation::none, VariableAggregation::only_first_replica}) {
    expect_error(Code::invalid_argument, {"reduce_op_of", std::string(to_string(value)), "must be sum or mean"},
                 [&] { (void)reduce_op_of(value); });
  }
}

TEST(MakeVariable, makes_it_by_the_strategy_that_is_current) {
  const auto layer = [] { return make_variable<float>(3.0F, {.name = "w", .aggregation = VariableAggregation::sum}); };
  MirroredStrategy strategy = mirrored(2);
  EXPECT_EQ(layer().component_count(), 1);
  EXPECT_FALSE(strategy.extended().variable_created_in_scope(layer()));
  {
    const Scope scope = strategy.scope();
    EXPECT_EQ(layer().component_count(), 2);
    EXPECT_EQ(make_sync_on_read_variable<float>(1.0F).component_count(), 2);
    EXPECT_EQ(make_variable(Tensor::scalar(1)).component_count(), 2);
  }
  const MirroredVariable<float> made = strategy.run(layer);
  EXPECT_TRUE(strategy.extended().variable_created_in_scope(made));
}

TEST(LazyVariable, is_created_once_by_the_first_caller) {
  for (const bool in_step : {false, true}) {
    MirroredStrategy strategy = mirrored(4);
    LazyVariable<MirroredVariable<float>> lazy;
    std::atomic<int> initialised{0};
    const auto get = [&] {
      return lazy.get(
          [&] { return make_variable<float>([&] { return static_cast<float>(++initialised); }, {.name = "w"}); });
    };
    EXPECT_FALSE(lazy.is_made());
    if (in_step) {
      for (int step = 0; step < 3; ++step) strategy.run([&] { EXPECT_EQ(get().value(), 1.0F); });
    }
    const Scope scope = strategy.scope();
    EXPECT_EQ(get(), get());
    EXPECT_EQ(get().component_count(), 4);
    EXPECT_EQ(initialised, 1);
  }
}

}  // namespace
}  // namespace lockstep::test
