// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The rendezvous of many replica threads, which is in levels: results, errors that arise in each level, and the cache
// lines that a thread reads. 11 replicas are groups of 8 and 3; 64 are eight groups of 8.

#include "context/step.hpp"

#include <lockstep/lockstep.hpp>

#include "support/expect_error.hpp"
#include "unit/strategy/strategies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

constexpr int counts[] = {2, 8, 9, 11, 16, 64};

TEST(Rendezvous, gives_every_replica_the_sum_and_merges_the_parts_in_order) {
  for (const int count : counts) {
    MirroredStrategy strategy = mirrored(count);
    std::vector<int> merged;
    const auto sums = strategy.run([&](ReplicaContext& replica) {
      const int id = replica.replica_id_in_sync_group();
      const auto sum = replica.all_reduce(ReduceOp::sum, static_cast<float>(id));
      const auto [first, second] =
          replica.all_reduce(ReduceOp::max, std::tuple(static_cast<std::int32_t>(id), static_cast<float>(-id)));
      replica.merge_call(
          [&](Strategy&, const PerReplica<int>& ids) {
            for (int i = 0; i < ids.size(); ++i) merged.push_back(ids.component(i));
          },
          id);
      return sum + static_cast<float>(first) + second;
    });
    const int sum_of_ids = count * (count - 1) / 2;
    const auto expected = static_cast<float>(sum_of_ids + count - 1);
    EXPECT_EQ(components(sums), std::vector<float>(static_cast<std::size_t>(count), expected)) << count;
    ASSERT_EQ(merged.size(), static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) EXPECT_EQ(merged[static_cast<std::size_t>(i)], i);
  }
}

TEST(Rendezvous, of_sequential_replicas_runs_them_in_order) {
  const int count = 11;
  MirroredStrategy strategy = mirrored(count);
  std::vector<int> order;
  strategy.run(
      [&](ReplicaContext& replica) {
        order.push_back(replica.replica_id_in_sync_group());
        EXPECT_EQ(replica.all_reduce(ReduceOp::sum, 1), count);
        order.push_back(replica.replica_id_in_sync_group());
      },
      RunOptions{.mode = RunMode::sequential});
  ASSERT_EQ(order.size(), static_cast<std::size_t>(2 * count));
  for (int i = 0; i < count; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

/// A replica of the first group, the first replica of the second group, and another one of the second group.
constexpr int odd_ones[] = {5, 8, 10};

TEST(Rendezvous, refuses_a_replica_whose_call_differs) {
  MirroredStrategy strategy = mirrored(11);
  for (const int odd : odd_ones) {
    const std::string name = "replica " + std::to_string(odd);
    expect_error(Code::mismatch, {"op is", name}, [&] {
      strategy.run([&](ReplicaContext& replica) {
        const bool differs = replica.replica_id_in_sync_group() == odd;
        (void)replica.all_reduce(differs ? ReduceOp::max : ReduceOp::sum, 1.0F);
      });
    });
    expect_error(Code::failed_precondition, {"calls merge_call", "calls all_reduce", name}, [&] {
      strategy.run([&](ReplicaContext& replica) {
        if (replica.replica_id_in_sync_group() == odd) {
          replica.merge_call([](Strategy&) {});
        } else {
          (void)replica.all_reduce(ReduceOp::sum, 1.0F);
        }
      });
    });
    EXPECT_EQ(strategy.run([](ReplicaContext& replica) { return replica.all_reduce(ReduceOp::sum, 1); }).component(10),
              11)
        << "after an error, the strategy works";
  }
}

TEST(Rendezvous, names_a_replica_that_returns_or_fails) {
  MirroredStrategy strategy = mirrored(11);
  for (const int odd : {0, 5, 8, 10}) {
    expect_error(Code::failed_precondition, {"replica " + std::to_string(odd) + " returned from the step"}, [&] {
      strategy.run([&](ReplicaContext& replica) {
        if (replica.replica_id_in_sync_group() != odd) (void)replica.all_reduce(ReduceOp::sum, 1.0F);
      });
    });
    EXPECT_THROW(strategy.run([&](ReplicaContext& replica) {
      if (replica.replica_id_in_sync_group() == odd) throw std::out_of_range("odd");
      (void)replica.all_reduce(ReduceOp::sum, 1.0F);
    }),
                 std::out_of_range);
  }
}

TEST(Rendezvous, names_a_replica_that_is_late) {
  CommunicatorOptions options;
  options.fail_after = 300ms;
  on_workers(
      {11},
      [&](Strategy& strategy) {
        for (const int odd : {0, 5, 8, 10}) {
          expect_error(Code::deadline_exceeded, {"all_reduce", "replica " + std::to_string(odd)}, [&] {
            strategy.run([&](ReplicaContext& replica) {
              if (replica.replica_id_in_sync_group() == odd) std::this_thread::sleep_for(1s);
              (void)replica.all_reduce(ReduceOp::sum, 1.0F);
            });
          });
        }
      },
      options);
}

/// The most cache lines that a thread of `count` replicas reads in one all_reduce of a scalar.
std::uint64_t most_lines(int count) {
  MirroredStrategy strategy = mirrored(count);
  const auto lines = strategy.run([](ReplicaContext& replica) {
    const auto all_reduce = [&] { (void)replica.all_reduce(ReduceOp::sum, 1.0F); };
    all_reduce();
    const std::uint64_t before = StepAccess::lines_read(replica);
    all_reduce();
    return static_cast<std::int64_t>(StepAccess::lines_read(replica) - before);
  });
  std::int64_t most = 0;
  for (const std::int64_t here : components(lines)) most = std::max(most, here);
  return static_cast<std::uint64_t>(most);
}

TEST(Rendezvous, reads_few_lines_of_other_threads) {
  const std::uint64_t per_member = most_lines(2);  // its arrival, its call and its two views
  EXPECT_EQ(most_lines(8), 7 * per_member);
  EXPECT_LT(most_lines(16), 2 * most_lines(8));
  EXPECT_LT(most_lines(64), 63 * per_member * 6 / 10) << "in one level, the leader would read 63 members";
  for (const int count : counts)
    RecordProperty("lines of " + std::to_string(count) + " replicas", static_cast<int>(most_lines(count)));
}

}  // namespace
}  // namespace lockstep::test
