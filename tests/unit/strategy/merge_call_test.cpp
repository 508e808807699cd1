// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// merge_call: arguments, results, nesting and failures.

#include "unit/strategy/strategies.hpp"

#include <atomic>
#include <map>
#include <tuple>

namespace lockstep::test {
namespace {

TEST(MergeCall, calls_the_function_once_with_the_merged_arguments) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  int calls = 0;
  const auto received = strategy.run([&](ReplicaContext& replica) {
    return replica.merge_call(
        [&](Strategy& current, const PerReplica<int>& ids, const PerReplica<int>& sevens,
            const MirroredVariable<float>& whole) {
          ++calls;
          EXPECT_EQ(&current, &strategy);
          EXPECT_EQ(components(sevens), (std::vector<int>{7, 7}));
          EXPECT_TRUE(whole == variable);
          return current.reduce(ReduceOp::sum, ids);
        },
        replica.replica_id_in_sync_group(), 7, variable);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(components(received), (std::vector<int>{1, 1}));
}

TEST(MergeCall, splits_per_replica_and_mirrored_results) {
  MirroredStrategy strategy = mirrored(2);
  const auto [own, same, plain] = strategy.run([&](ReplicaContext& replica) {
    return replica.merge_call(
        [](Strategy&) { return std::tuple(PerReplica<int>({10, 20}), Mirrored<int>({5, 5}), 7); });
  });
  EXPECT_EQ(components(own), (std::vector<int>{10, 20}));
  EXPECT_EQ(components(same), (std::vector<int>{5, 5}));
  EXPECT_EQ(components(plain), (std::vector<int>{7, 7}));
}

TEST(MergeCall, may_run_nested_steps_to_any_depth) {
  MirroredStrategy strategy = mirrored(4);
  const auto result = strategy.run([&](ReplicaContext& replica) {
    const int received = replica.merge_call([&](Strategy& current) {
      return current.run([&](ReplicaContext& inner) {
        const int ten = inner.all_reduce(ReduceOp::sum, 10) / 4;
        const int deeper = inner.merge_call(
            [&](Strategy& again) { return again.run([](ReplicaContext& r) { return r.replica_id_in_sync_group(); }); });
        return ten * (deeper + 1);
      });
    });
    return received + replica.replica_id_in_sync_group();
  });
  EXPECT_EQ(components(result), (std::vector<int>{10, 21, 32, 43}));
}

TEST(MergeCall, implements_the_four_steps_of_an_update) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  strategy.run([&](ReplicaContext& replica) {
    replica.merge_call(
        [&](Strategy& current, const PerReplica<float>& gradients) {
          const auto total = current.extended().reduce_to(ReduceOp::sum, gradients, variable);
          current.extended().update(
              variable, [](const auto& copy, float g) { copy.updatable_component()[0] -= g; }, total);
        },
        static_cast<float>(replica.replica_id_in_sync_group() + 1));
  });
  EXPECT_EQ(copies(variable), (std::vector<std::vector<float>>{{-2}, {-2}}));
}

TEST(MergeCall, that_throws_ends_the_step_on_all_replicas_with_that_exception) {
  MirroredStrategy strategy = mirrored(3);
  std::atomic<int> after{0};
  EXPECT_THROW(strategy.run([&](ReplicaContext& replica) {
    replica.merge_call([](Strategy&) { throw std::out_of_range("boom"); });
    ++after;
  }),
               std::out_of_range);
  EXPECT_EQ(after, 0);
  EXPECT_EQ(components(strategy.run([](ReplicaContext& r) { return r.replica_id_in_sync_group(); })),
            (std::vector<int>{0, 1, 2}));
}

TEST(MergeCall, that_fails_in_a_nested_step_ends_both_steps) {
  MirroredStrategy strategy = mirrored(3);
  EXPECT_THROW(strategy.run([&](ReplicaContext& replica) {
    replica.merge_call([](Strategy& current) {
      current.run([](ReplicaContext& inner) {
        if (inner.local_replica() == 2) throw std::out_of_range("boom");
        (void)inner.all_reduce(ReduceOp::sum, 1.0F);
      });
    });
  }),
               std::out_of_range);
  strategy.run([](ReplicaContext& r) { (void)r.all_reduce(ReduceOp::sum, 1.0F); });
}

TEST(MergeCall, made_a_different_number_of_times_is_an_error) {
  for (const int lazy : {0, 1}) {
    MirroredStrategy strategy = mirrored(2);
    expect_error(Code::failed_precondition, {"different number", "merge_call"}, [&] {
      strategy.run([&](ReplicaContext& replica) {
        if (replica.local_replica() != lazy) replica.merge_call([](Strategy&) {});
      });
    });
  }
}

TEST(MergeCall, with_other_argument_types_is_an_error) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::failed_precondition, {"merge_call", "type"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      if (replica.local_replica() == 0) {
        replica.merge_call([](Strategy&, const PerReplica<int>&) {}, 1);
      } else {
        replica.merge_call([](Strategy&, const PerReplica<float>&) {}, 1.0F);
      }
    });
  });
}

TEST(MergeCall, works_the_same_with_one_replica) {
  OneDeviceStrategy strategy;
  const auto result = strategy.run([&](ReplicaContext& replica) {
    return replica.merge_call(
        [&](Strategy& current, const PerReplica<float>& x) { return &current == &strategy ? x.value() + 1 : 0; }, 4.0F);
  });
  EXPECT_EQ(result, 5.0F);
}

}  // namespace
}  // namespace lockstep::test
