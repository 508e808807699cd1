// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/metrics.hpp>

#include "unit/strategy/strategies.hpp"

#include <cmath>

namespace lockstep::test {
namespace {

TEST(GlobalMean, gives_every_number_the_same_weight) {
  MirroredStrategy strategy = mirrored(2);
  const PerReplica<std::vector<float>> losses({{5, 6}, {7}});
  const auto means = strategy.run(
      [](ReplicaContext& replica, const std::vector<float>& x) { return global_mean(replica, x); }, losses);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(means.component(i).value(), 6.0);  // not 6.25
    EXPECT_EQ(means.component(i).count(), 3);
    EXPECT_EQ(means.component(i).sum(), 18.0);
    EXPECT_EQ(means.component(i).share(), 1.0 / 3);
  }
}

TEST(GlobalMean, is_one_collective) {
  MirroredStrategy strategy = mirrored(2);
  const auto before = strategy.statistics().collectives;
  strategy.run([](ReplicaContext& replica) { (void)global_mean(replica, 1.0, 2); });
  EXPECT_EQ(strategy.statistics().collectives, before + 1);
}

TEST(GlobalMean, takes_replicas_without_numbers) {
  on_workers({1, 2}, [](Strategy& strategy) {
    strategy.run([](ReplicaContext& replica) {
      const std::vector<float> mine(replica.replica_id_in_sync_group() == 1 ? 2 : 0, 3.0F);
      EXPECT_EQ(global_mean(replica, mine).value(), 3.0);
      EXPECT_EQ(global_mean(replica, std::vector<float>{}).value(), 0.0);
      EXPECT_EQ(global_mean(replica, std::vector<float>{}).share(), 0.0);
    });
  });
}

TEST(GlobalMean, has_the_same_bits_for_every_layout) {
  const auto mean = [](Strategy& strategy) {
    return strategy
        .run([](ReplicaContext& replica) {
          std::vector<float> mine(static_cast<std::size_t>(7 + replica.replica_id_in_sync_group()));
          for (std::size_t i = 0; i < mine.size(); ++i) {
            mine[i] = std::sin(static_cast<float>(replica.replica_id_in_sync_group() * 31) + static_cast<float>(i)) *
                      std::pow(10.0F, static_cast<float>(i % 7));
          }
          return global_mean(replica, mine).value();
        })
        .component(0);
  };
  MirroredStrategy strategy = mirrored(4);
  const double expected = mean(strategy);
  for (const std::vector<int>& layout : {std::vector<int>{1, 1, 1, 1}, {2, 2}, {1, 3}})
    on_workers(layout, [&](Strategy& workers) { EXPECT_EQ(mean(workers), expected); });
}

TEST(GlobalMean, refuses_a_negative_count) {
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::invalid_argument, {"global_mean", "count is -1", "must not be negative"},
               [&] { strategy.run([](ReplicaContext& replica) { (void)global_mean(replica, 1.0, -1); }); });
}

}  // namespace
}  // namespace lockstep::test
