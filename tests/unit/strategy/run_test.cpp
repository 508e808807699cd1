// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// run: one step on all replicas, its results and its failures.

#include "unit/strategy/strategies.hpp"

#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

namespace lockstep::test {
namespace {

TEST(Run, calls_the_function_once_per_replica_with_its_id) {
  for (const int count : {1, 2, 4}) {
    MirroredStrategy strategy = mirrored(count);
    std::atomic<int> calls{0};
    const auto ids = strategy.run([&](ReplicaContext& replica) {
      ++calls;
      EXPECT_EQ(replica.num_replicas_in_sync(), count);
      EXPECT_EQ(replica.devices().front(), (Device{DeviceKind::cpu, replica.local_replica()}));
      return replica.replica_id_in_sync_group();
    });
    EXPECT_EQ(calls, count);
    for (int i = 0; i < count; ++i) EXPECT_EQ(ids.component(i), i);
  }
}

TEST(Run, runs_the_first_replica_on_the_callers_thread_and_the_others_on_their_own) {
  MirroredStrategy strategy = mirrored(3);
  const auto first = strategy.run([] { return std::this_thread::get_id(); });
  const auto second = strategy.run([] { return std::this_thread::get_id(); });
  EXPECT_EQ(first.component(0), std::this_thread::get_id());
  EXPECT_EQ(components(first), components(second));
  const auto all = components(first);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 3U);
}

TEST(Run, runs_replicas_at_the_same_time) {
  MirroredStrategy strategy = mirrored(4);
  std::atomic<int> inside{0};
  strategy.run([&] {
    ++inside;
    while (inside < 4) std::this_thread::yield();
  });
}

TEST(Run, in_sequential_mode_runs_one_replica_at_a_time_in_order) {
  MirroredStrategy strategy = mirrored(3);
  std::vector<std::string> log;  // needs no lock: replicas run one at a time
  strategy.run(
      [&](ReplicaContext& replica) {
        const std::string id = std::to_string(replica.replica_id_in_sync_group());
        log.push_back("a" + id);
        (void)replica.all_reduce(ReduceOp::sum, 1.0F);
        log.push_back("b" + id);
        replica.merge_call([&](Strategy&) { log.push_back("merge"); });
        log.push_back("c" + id);
      },
      RunOptions{.mode = RunMode::sequential});
  EXPECT_EQ(log, (std::vector<std::string>{"a0", "a1", "a2", "b0", "b1", "b2", "merge", "c0", "c1", "c2"}));
}

TEST(Run, slices_distributed_arguments_and_passes_others_unchanged) {
  MirroredStrategy strategy = mirrored(2);
  PerReplica<std::vector<float>> batches({{1, 2}, {3}});
  const int plain = 7;
  const auto result = strategy.run(
      [&](ReplicaContext& replica, const std::vector<float>& batch, const int& number, const Mirrored<int>& nothing) {
        (void)nothing;
        EXPECT_EQ(&number, &plain);
        EXPECT_EQ(&batch, &batches.component(replica.local_replica()));
        return batch.size();
      },
      batches, plain, Mirrored<Mirrored<int>>({Mirrored<int>({1})}));
  EXPECT_EQ(components(result), (std::vector<std::size_t>{2, 1}));
}

TEST(Run, slices_trees_of_arguments) {
  MirroredStrategy strategy = mirrored(2);
  const std::map<std::string, PerReplica<int>> by_name{{"k", PerReplica<int>({3, 4})}};
  const auto result = strategy.run(
      [](const std::map<std::string, int>& names, const std::tuple<int, float>& pair) {
        return static_cast<float>(names.at("k")) * static_cast<float>(std::get<0>(pair)) + std::get<1>(pair);
      },
      by_name, std::tuple(PerReplica<int>({10, 20}), 0.5F));
  EXPECT_EQ(components(result), (std::vector<float>{30.5F, 80.5F}));
}

TEST(Run, passes_variables_whole_and_returns_them_as_themselves) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(5.0F);
  const auto product = strategy.run([](const MirroredVariable<float>& v, float x) { return v.value() * x; }, variable,
                                    PerReplica<float>({1, 2}));
  EXPECT_EQ(components(product), (std::vector<float>{5, 10}));
  const MirroredVariable<float> same = strategy.run([&] { return variable; });
  EXPECT_TRUE(same == variable);
}

TEST(Run, returns_trees_of_per_replica_values) {
  MirroredStrategy strategy = mirrored(2);
  const auto [id, map] = strategy.run([](ReplicaContext& replica) {
    const int n = replica.replica_id_in_sync_group();
    return std::tuple(n, std::map<std::string, std::vector<float>>{{"x", {1.0F, static_cast<float>(n)}}});
  });
  EXPECT_EQ(components(id), (std::vector<int>{0, 1}));
  EXPECT_EQ(map.at("x").component(1), (std::vector<float>{1, 1}));
}

TEST(Run, does_not_merge_values_because_they_are_equal) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<int> four = strategy.run([] { return 4; });
  EXPECT_EQ(components(four), (std::vector<int>{4, 4}));
}

TEST(Run, refuses_results_of_different_structure) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::invalid_argument, {"keys"}, [&] {
    (void)strategy.run([](ReplicaContext& r) {
      return std::map<std::string, int>{{r.replica_id_in_sync_group() == 0 ? "a" : "b", 1}};
    });
  });
}

TEST(Run, with_one_replica_gives_a_value_that_unwraps) {
  MirroredStrategy strategy = mirrored(1);
  EXPECT_EQ(strategy.run([](float x) { return 2 * x; }, 3.0F).value(), 6.0F);
}

TEST(Run, takes_its_options_after_the_arguments) {
  MirroredStrategy strategy = mirrored(3);
  std::vector<int> order;  // needs no lock: replicas run one at a time
  const RunOptions one_at_a_time{.mode = RunMode::sequential};
  const auto step = [&](ReplicaContext& replica, int a, const std::string& b) {
    order.push_back(replica.local_replica());
    return std::to_string(a) + b;
  };
  EXPECT_EQ(components(strategy.run(step, PerReplica<int>({1, 2, 3}), "x", one_at_a_time)),
            (std::vector<std::string>{"1x", "2x", "3x"}));
  EXPECT_EQ(components(strategy.experimental_run_v2(step, 4, "y", RunOptions{.mode = RunMode::sequential})),
            std::vector<std::string>(3, "4y"));
  strategy.extended().call_for_each_replica(step, 5, "z", one_at_a_time);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  OneDeviceStrategy one;
  EXPECT_EQ(one.run([](int x) { return 2 * x; }, 3, one_at_a_time), 6);
  EXPECT_EQ(one.experimental_run_v2([] { return 7; }, one_at_a_time), 7);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

TEST(Run, still_takes_its_options_before_the_function) {
  MirroredStrategy strategy = mirrored(2);
  std::vector<int> order;
  const auto step = [&](ReplicaContext& replica, int x) {
    order.push_back(replica.local_replica());
    return x + replica.local_replica();
  };
  EXPECT_EQ(components(strategy.run({.mode = RunMode::sequential}, step, 5)), (std::vector<int>{5, 6}));
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

#pragma GCC diagnostic pop

TEST(Run, executes_every_one_of_many_short_steps) {
  MirroredStrategy strategy = mirrored(4);
  std::vector<int> counts(4, 0);
  for (int step = 0; step < 2000; ++step) {
    strategy.run([&](ReplicaContext& replica) { ++counts[static_cast<std::size_t>(replica.local_replica())]; });
  }
  EXPECT_EQ(counts, (std::vector<int>{2000, 2000, 2000, 2000}));
  EXPECT_EQ(strategy.statistics().runs, 2000);
}

TEST(Run, refuses_a_second_thread) {
  MirroredStrategy strategy = mirrored(2);
  std::atomic<bool> refused{false};
  strategy.run([&](ReplicaContext& replica) {
    if (replica.local_replica() != 0) return;
    std::thread([&] {
      expect_error(Code::failed_precondition, {"another thread"}, [&] { strategy.run([] {}); });
      refused = true;
    }).join();
  });
  EXPECT_TRUE(refused);
}

TEST(RunFailure, keeps_the_type_of_the_first_exception_and_the_strategy_usable) {
  MirroredStrategy strategy = mirrored(4);
  for (int round = 0; round < 50; ++round) {
    try {
      strategy.run([&](ReplicaContext& replica) {
        if (replica.local_replica() == round % 4) throw std::out_of_range("boom");
        (void)replica.all_reduce(ReduceOp::sum, 1.0F);
        ADD_FAILURE() << "a replica left a rendezvous that another replica never entered";
      });
      ADD_FAILURE();
    } catch (const std::out_of_range& error) {
      EXPECT_STREQ(error.what(), "boom");
    }
    const auto sums = strategy.run([](ReplicaContext& replica) { return replica.all_reduce(ReduceOp::sum, 1.0F); });
    EXPECT_EQ(components(sums), (std::vector<float>(4, 4.0F)));
  }
}

TEST(RunFailure, lets_replicas_without_a_rendezvous_finish) {
  MirroredStrategy strategy = mirrored(2);
  std::atomic<bool> finished{false};
  EXPECT_THROW(strategy.run([&](ReplicaContext& replica) {
    if (replica.local_replica() == 0) throw std::runtime_error("boom");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    finished = true;
  }),
               std::runtime_error);
  EXPECT_TRUE(finished);
}

TEST(RunFailure, passes_exceptions_that_are_not_std_exceptions) {
  MirroredStrategy strategy = mirrored(2);
  EXPECT_THROW(strategy.run([](ReplicaContext& replica) {
    if (replica.local_replica() == 1) throw 42;
    (void)replica.all_reduce(ReduceOp::sum, 1.0F);
  }),
               int);
}

TEST(RunFailure, in_sequential_mode_starts_no_further_replica) {
  MirroredStrategy strategy = mirrored(3);
  int started = 0;
  EXPECT_THROW(strategy.run(
                   [&] {
                     ++started;
                     throw std::runtime_error("boom");
                   },
                   RunOptions{.mode = RunMode::sequential}),
               std::runtime_error);
  EXPECT_EQ(started, 1);
}

TEST(RunFailure, of_a_replica_that_returns_early_names_the_call_that_the_user_made) {
  MirroredStrategy strategy = mirrored(2);
  const auto m = strategy.variable<float>(1.0F, {.name = "m", .aggregation = VariableAggregation::mean});
  const auto expect_named = [&](const std::string& call, const auto& make) {
    expect_error(Code::failed_precondition, {"replica 0 returned from the step while replica 1 waits in " + call}, [&] {
      strategy.run([&](ReplicaContext& replica) {
        if (replica.local_replica() == 1) make(replica);
      });
    });
  };
  expect_named("assign_add of variable \"m\" at strategy/run_test.cpp:", [&](ReplicaContext&) { m.assign_add(1.0F); });
  expect_named("the creation of variable \"late\"",
               [&](ReplicaContext&) { (void)strategy.variable<float>(1.0F, {.name = "late"}); });
  expect_named("merge_call;", [](ReplicaContext& replica) { replica.merge_call([](Strategy&) {}); });
}

TEST(RunFailure, of_a_replica_that_returns_early_is_detected_at_once) {
  for (const RunMode mode : {RunMode::concurrent, RunMode::sequential}) {
    for (const int early : {0, 1, 2}) {
      MirroredStrategy strategy = mirrored(3);
      expect_error(Code::failed_precondition,
                   {"replica " + std::to_string(early) + " returned from the step",
                    "waits in all_reduce at strategy/run_test.cpp:", "each must make the same calls"},
                   [&] {
                     strategy.run(
                         [&](ReplicaContext& replica) {
                           if (replica.local_replica() != early) (void)replica.all_reduce(ReduceOp::sum, 1.0F);
                         },
                         RunOptions{.mode = mode});
                   });
      strategy.run([](ReplicaContext& replica) { (void)replica.all_reduce(ReduceOp::sum, 1.0F); });
    }
  }
}

TEST(RunFailure, of_a_replica_that_times_out_names_it) {
  on_workers(
      {2},
      [](Strategy& strategy) {
        // one replica makes its call only when that of the other has failed
        const auto call_when_failed = [&](int late, FunctionRef<void(ReplicaContext&)> call) {
          std::latch has_failed(1);
          strategy.run([&](ReplicaContext& replica) {
            if (replica.local_replica() == late) {
              has_failed.wait();
              call(replica);
              return;
            }
            try {
              call(replica);
            } catch (...) {
              has_failed.count_down();
              throw;
            }
            has_failed.count_down();
          });
        };
        expect_error(Code::deadline_exceeded, {"all_reduce", "replica 0 waits", "replica 1"}, [&] {
          call_when_failed(1, [](ReplicaContext& replica) { (void)replica.all_reduce(ReduceOp::sum, 1.0F); });
        });
        expect_error(Code::deadline_exceeded, {"merge_call", "replica 1 waits", "replica 0"}, [&] {
          call_when_failed(0, [](ReplicaContext& replica) { replica.merge_call([](Strategy&) {}); });
        });
      },
      short_deadline(100));
}

}  // namespace
}  // namespace lockstep::test
