// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Replicas distributed over ranks (threads): the same bits for every layout, and no hang if one of them fails.

#include "support/errors.hpp"
#include "unit/strategy/strategies.hpp"
#include "virtual_time/virtual_time.hpp"

#include <cmath>
#include <latch>
#include <mutex>
#include <tuple>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

/// A value of replica `id` whose sums depend on their order.
float rough(int id, int k) {
  return std::sin(static_cast<float>(17 * id + k)) * std::pow(10.0F, static_cast<float>((id * 7 + k) % 9));
}

TEST(Layouts, of_the_same_replicas_give_the_same_bits) {
  for (const int replicas : {3, 4}) {
    std::mutex mutex;
    std::vector<std::vector<float>> results;
    const std::vector<std::vector<int>> layouts =
        replicas == 4 ? std::vector<std::vector<int>>{{4}, {2, 2}, {2, 1, 1}, {1, 3}, {1, 1, 1, 1}}
                      : std::vector<std::vector<int>>{{3}, {2, 1}, {1, 1, 1}};
    for (const auto& layout : layouts) {
      on_workers(layout, [&](Strategy& strategy) {
        const auto variable = strategy.variable<float>(std::vector<float>(100, 1.0F),
                                                       {.name = "w", .aggregation = VariableAggregation::mean});
        const auto in_step = strategy.run([&](ReplicaContext& replica) {
          std::vector<float> gradient(100);
          for (int k = 0; k < 100; ++k)
            gradient[static_cast<std::size_t>(k)] = rough(replica.replica_id_in_sync_group(), k);
          variable.assign_add(gradient);
          return replica.all_reduce(ReduceOp::sum, gradient);
        });
        std::vector<float> mine = strategy.reduce(ReduceOp::mean, in_step);
        const auto copy = variable.elements();
        mine.insert(mine.end(), copy.begin(), copy.end());
        for (int i = 0; i < variable.component_count(); ++i) {
          EXPECT_EQ(elements_of<float>(variable.component(i)), std::vector<float>(copy.begin(), copy.end()));
        }
        const std::lock_guard lock(mutex);
        results.push_back(mine);
      });
    }
    for (const auto& result : results) EXPECT_EQ(result, results.front());
  }
}

TEST(Ranks, receive_an_exception_of_another_ranks_step) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const int rank = strategy.communicator().rank();
    for (int round = 0; round < 20; ++round) {
      try {
        strategy.run([&](ReplicaContext& replica) {
          if (replica.replica_id_in_sync_group() == 2) throw std::runtime_error("boom " + std::to_string(round));
          (void)replica.all_reduce(ReduceOp::sum, 1.0F);
        });
        ADD_FAILURE() << "no error on rank " << rank;
      } catch (const Error& error) {
        EXPECT_EQ(rank, 0);
        EXPECT_EQ(error.code(), Code::unavailable);
        EXPECT_NE(error.text().find("boom " + std::to_string(round)), std::string::npos) << error.what();
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(rank, 1);
        EXPECT_EQ(error.what(), "boom " + std::to_string(round));
      }
      EXPECT_EQ(strategy.run([](ReplicaContext& r) { return r.all_reduce(ReduceOp::sum, 1.0F); }).component(0), 3.0F);
    }
  });
}

TEST(Ranks, that_disagree_about_a_shape_both_get_mismatch) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const std::size_t size = strategy.communicator().rank() == 0 ? 2 : 3;
    expect_error(Code::mismatch, {"[2]", "[3]"}, [&] {
      strategy.run([&](ReplicaContext& replica) { (void)replica.all_reduce(ReduceOp::sum, std::vector<float>(size)); });
    });
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })), 3);
  });
}

TEST(Ranks, that_a_failure_has_left_at_different_operations_recover_by_the_communicator_of_the_strategy) {
  std::latch are_posted(1);
  on_workers({1, 2}, [&](Strategy& strategy) {
    const Communicator& comm = strategy.communicator();
    const auto sum = [&] { return strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })); };
    if (comm.rank() == 0) {
      Request first = comm.barrier_async({.name = "one"});
      Request second = comm.barrier_async({.name = "two"});
      are_posted.count_down();
      expect_error(Code::mismatch, {"one", "other"}, [&] { second.wait(); });
      expect_error(Code::mismatch, {"one", "other"}, [&] { first.wait(); });
    } else {
      are_posted.wait();
      expect_error(Code::mismatch, {"one", "other"}, [&] { comm.barrier({.name = "other"}); });
    }
    for (int i = 0; i < 2; ++i) {
      expect_error(Code::mismatch,
                   {"different operations", "call communicator().recover() of the strategy on every rank",
                    "restore the variables"},
                   [&] { (void)sum(); });
    }
    (void)strategy.communicator().recover();
    EXPECT_EQ(sum(), 3);
  });
}

/// Checks that both ranks get the lines of both calls; `call` makes them, with values of that size, on two lines.
template <class Call>
void expect_lines(int of_rank_0, int of_rank_1, const Call& call) {
  const auto place = [](int line) { return " at strategy/ranks_test.cpp:" + std::to_string(line); };
  on_workers({1, 1}, [&](Strategy& strategy) {
    const bool is_first = strategy.communicator().rank() == 0;
    expect_error(Code::mismatch, {place(of_rank_0), place(of_rank_1)}, [&] { call(strategy, is_first); });
  });
}

TEST(Ranks, that_disagree_get_the_lines_of_both_calls) {
  constexpr int line = __LINE__;
  expect_lines(line + 3, line + 4, [](Strategy& strategy, bool is_first) {
    strategy.run([&](ReplicaContext& r) {
      if (is_first) (void)r.all_reduce("SUM", Floats(2));
      if (!is_first) (void)r.all_reduce("SUM", Floats(3), {.timeout_seconds = 20});
    });
  });
  expect_lines(line + 9, line + 10, [](Strategy& strategy, bool is_first) {
    strategy.run([&](ReplicaContext& r) {
      if (is_first) (void)r.broadcast(Floats(2));
      if (!is_first) (void)r.all_gather(Floats(3), 0);
    });
  });
  expect_lines(line + 15, line + 16, [](Strategy& strategy, bool is_first) {
    const auto value = strategy.run([&] { return Floats(is_first ? 2 : 3); });
    if (is_first) (void)strategy.reduce("SUM", value);
    if (!is_first) (void)strategy.gather(value, 0);
  });
  expect_lines(line + 20, line + 21, [](Strategy& strategy, bool is_first) {
    const auto value = strategy.run([&] { return Floats(is_first ? 2 : 3); });
    if (is_first) (void)strategy.extended().reduce_to("SUM", value, value);
    if (!is_first) (void)strategy.extended().broadcast_to(Floats(2), value);
  });
}

TEST(Ranks, receive_a_mismatch_of_the_lengths_of_two_replicas_lists) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const auto of_length = [](ReplicaContext& replica, std::size_t odd) {
      return std::vector<Floats>(replica.replica_id_in_sync_group() == 1 ? odd : 2, Floats(3));
    };
    expect_error(Code::mismatch, {"number of values", "3 on replica 1", "2 on replica 0"}, [&] {
      strategy.run([&](ReplicaContext& replica) { (void)replica.all_reduce("SUM", of_length(replica, 3)); });
    });
    expect_error(Code::mismatch, {"number of values", "1 on replica 1"}, [&] {
      strategy.run([&](ReplicaContext& replica) { (void)replica.all_gather(of_length(replica, 1), 0); });
    });
    EXPECT_EQ(strategy.reduce("SUM", strategy.run([] { return 1; })), 3);
  });
}

TEST(Ranks, receive_a_mismatch_between_replicas_of_one_rank) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const int rank = strategy.communicator().rank();
    expect_error(Code::mismatch, {"shape", "replica 2"}, [&] {
      strategy.run([&](ReplicaContext& replica) {
        (void)replica.all_reduce(ReduceOp::sum, std::vector<float>(replica.replica_id_in_sync_group() == 2 ? 3 : 2));
      });
    });
    expect_error(rank == 1 ? Code::invalid_argument : Code::unavailable, {"shape", "replica 2"}, [&] {
      const std::size_t odd = rank == 1 ? 3 : 2;
      const PerReplica<std::vector<float>> value = strategy.run(
          [&](ReplicaContext& r) { return std::vector<float>(r.replica_id_in_sync_group() == 2 ? odd : 2); });
      (void)strategy.reduce(ReduceOp::sum, value);
    });
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })), 3);
  });
}

/// Options with a deadline that fires for one call, and not for those that create a strategy: in real time, on a busy
/// machine, that needs seconds.
CommunicatorOptions deadline_that_fires() { return short_deadline(virtual_time::is_active() ? 300 : 10'000); }

TEST(Ranks, time_out_if_a_replica_never_calls) {
  std::latch has_failed(1);
  on_workers(
      {1, 1},
      [&](Strategy& strategy) {
        if (strategy.communicator().rank() == 1) {
          strategy.run([] {});
          has_failed.wait();
          return;
        }
        expect_error(Code::deadline_exceeded, {"rank 1"},
                     [&] { strategy.run([](ReplicaContext& r) { (void)r.all_reduce(ReduceOp::sum, 1.0F); }); });
        has_failed.count_down();
      },
      deadline_that_fires());
}

TEST(Ranks, that_make_a_different_number_of_merge_calls_get_an_error) {
  const auto sum_in_merge = [](ReplicaContext& replica) {
    replica.merge_call([](Strategy& current, const PerReplica<int>& x) { (void)current.reduce(ReduceOp::sum, x); }, 1);
  };
  on_workers({2, 1}, [&](Strategy& strategy) {
    const bool merges = strategy.communicator().rank() == 0;
    const auto step = [&](ReplicaContext& replica) {
      if (merges) sum_in_merge(replica);
      (void)replica.all_reduce(ReduceOp::sum, 1.0F);
    };
    if (merges) {
      expect_error(Code::mismatch, {"reduce", "the same number of merge_call calls"}, [&] { strategy.run(step); });
    } else {
      expect_error(Code::mismatch, {"reduce"}, [&] { strategy.run(step); });
    }
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })), 3);
  });
  std::latch has_failed(1);
  on_workers(
      {1, 1},
      [&](Strategy& strategy) {
        if (strategy.communicator().rank() == 1) {
          strategy.run([] {});
          has_failed.wait();
          return;
        }
        expect_error(Code::deadline_exceeded, {"rank 1", "different number of merge_call calls"},
                     [&] { strategy.run(sum_in_merge); });
        has_failed.count_down();
      },
      deadline_that_fires());
}

TEST(Ranks, that_make_no_merge_call_get_no_advice_about_merge_calls) {
  on_workers({2, 1}, [&](Strategy& strategy) {
    const bool gathers = strategy.communicator().rank() == 0;
    const std::string error = error_of([&] {
      strategy.run([&](ReplicaContext& replica) {
        if (gathers) {
          (void)replica.all_gather(Tensor(DType::f32, Shape{1}), 0);
        } else {
          (void)replica.all_reduce(ReduceOp::sum, 1.0F);
        }
      });
    });
    expect_all(error, {"mismatch:", "all_gather", "all_reduce"});
    EXPECT_EQ(error.find("merge_call"), std::string::npos) << error;
  });
}

TEST(Ranks, get_no_advice_about_merge_calls_if_local_replicas_differ) {
  on_workers({2, 1}, [&](Strategy& strategy) {
    if (strategy.communicator().rank() == 1) {
      EXPECT_THROW((void)strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })), Error);
      return;
    }
    const std::string error = error_of([&] {
      strategy.run([&](ReplicaContext& replica) {
        (void)strategy.variable(Tensor(DType::f32, Shape{1 + replica.local_replica()}), {.name = "m"});
      });
    });
    expect_all(error, {"variable \"m\"", "f32[2] on replica 1 but f32[1] on replica 0"});
    EXPECT_EQ(error.find("merge_call calls"), std::string::npos) << error;
  });
}

TEST(Ranks, go_on_after_one_more_collective_inside_a_merge_call) {
  for (const bool is_strategy_call : {true, false}) {
    for (const auto& layout : {std::vector<int>{1, 1}, {2, 1}}) {
      on_workers(layout, [&](Strategy& strategy) {
        bool makes_one_more = false;
        const auto step = [&](ReplicaContext& replica) {
          replica.merge_call(
              [&](Strategy& current, const PerReplica<int>& x) {
                (void)current.reduce(ReduceOp::sum, x);
                if (makes_one_more && is_strategy_call) (void)current.reduce(ReduceOp::sum, x);
                if (makes_one_more && !is_strategy_call) current.communicator().barrier();
              },
              1);
        };
        int failures = 0;
        for (int round = 0; round < 6; ++round) {
          makes_one_more = round == 2 && strategy.communicator().rank() == 1;
          const std::string error = error_of([&] { strategy.run(step); });
          if (error == "none") continue;
          expect_all(error, {"mismatch:"});
          ++failures;
          if (makes_one_more) ++round;  // the other rank's next step was matched with the call too many
        }
        EXPECT_EQ(failures, 1);
      });
    }
  }
}

TEST(Ranks, whose_merge_calls_without_collectives_differ_in_number_get_an_error_that_names_both) {
  const auto nothing = [](Strategy&) {};
  on_workers({2, 1, 1}, [&](Strategy& strategy) {
    const int rank = strategy.communicator().rank();
    const PerReplica<int> ones = strategy.run([](ReplicaContext& replica) {
      replica.merge_call([](Strategy&) {});
      return 1;
    });
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, ones), 4);
    strategy.run([&](ReplicaContext& replica) {
      for (int k = 0; k < (rank == 1 ? 2 : 3); ++k) replica.merge_call(nothing);
    });
    expect_error(Code::mismatch,
                 {"rank 0 made 4 merge_call calls, the last 3 of them in run #2",
                  "rank 1 made 3 merge_call calls, the last 2 of them in run #2"},
                 [&] { (void)strategy.reduce(ReduceOp::sum, ones); });
    // from here on the count starts again
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, ones), 4);
    if (rank == 2) strategy.run([&](ReplicaContext& replica) { replica.merge_call(nothing); });
    expect_error(Code::mismatch, {"rank 0 made no merge_call call", "rank 2 made 1 merge_call call in run #3"},
                 [&] { strategy.run([](ReplicaContext& replica) { (void)replica.all_reduce(ReduceOp::sum, 1); }); });
    strategy.run([&](ReplicaContext& replica) { replica.merge_call(nothing); });
    EXPECT_EQ(strategy.reduce(ReduceOp::sum, ones), 4);
  });
}

TEST(Ranks, restart_the_count_of_merge_calls_after_an_exception_in_one) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const bool throws = strategy.communicator().rank() == 1;
    const auto step = [&](ReplicaContext& replica) {
      replica.merge_call([](Strategy&) {});
      if (throws) throw std::runtime_error("boom");
      replica.merge_call([](Strategy&) {});
      (void)replica.all_reduce(ReduceOp::sum, 1);
    };
    for (int round = 0; round < 5; ++round) {
      EXPECT_THROW(strategy.run(step), std::runtime_error);
      const PerReplica<int> ones = strategy.run([](ReplicaContext& replica) {
        replica.merge_call([](Strategy&) {});
        return 1;
      });
      EXPECT_EQ(strategy.reduce(ReduceOp::sum, ones), 3);
    }
  });
}

TEST(Ranks, fail_together_inside_merge_call_and_continue) {
  on_workers({2, 1}, [](Strategy& strategy) {
    for (int round = 0; round < 10; ++round) {
      const std::size_t size = strategy.communicator().rank() == 0 ? 2 : 3;
      expect_error(Code::mismatch, {"[2]", "[3]"}, [&] {
        strategy.run([&](ReplicaContext& replica) {
          replica.merge_call([&](Strategy& current,
                                 const PerReplica<std::vector<float>>& x) { (void)current.reduce(ReduceOp::sum, x); },
                             std::vector<float>(size));
        });
      });
      EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([] { return 1; })), 3);
    }
  });
}

}  // namespace
}  // namespace lockstep::test
