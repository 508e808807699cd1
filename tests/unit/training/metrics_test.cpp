// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/metrics.hpp>

#include "unit/strategy/strategies.hpp"

#include <cmath>
#include <cstdint>

namespace lockstep::test {
namespace {

using Labels = std::vector<std::int64_t>;

TEST(Sum, is_over_all_steps_and_replicas) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const Sum sum(strategy);
    EXPECT_EQ(sum.result(), 0.0);
    for (int step = 0; step < 3; ++step) {
      strategy.run([&](ReplicaContext& replica) {
        sum.update(replica.replica_id_in_sync_group() + 1.0);
        sum.update(std::vector<float>{10, 20});
      });
    }
    EXPECT_EQ(sum.result(), 3 * (1 + 2 + 3 + 3 * 30));
    sum.reset();
    EXPECT_EQ(sum.result(), 0.0);
  });
}

TEST(Metrics, make_no_collective_per_step_and_one_per_result) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const Mean mean(strategy);
    const Accuracy accuracy(strategy);
    const auto before = strategy.statistics().collectives;
    for (int step = 0; step < 10; ++step) {
      strategy.run([&] {
        mean.update(1.0);
        accuracy.update(1, 2);
      });
    }
    EXPECT_EQ(strategy.statistics().collectives, before);
    EXPECT_EQ(mean.result(), 1.0);
    EXPECT_EQ(strategy.statistics().collectives, before + 1);
    EXPECT_EQ(accuracy.result(), 0.5);
    EXPECT_EQ(strategy.statistics().collectives, before + 2);
    mean.reset();
    EXPECT_EQ(strategy.statistics().collectives, before + 2);
  });
}

TEST(Mean, over_an_uneven_end_is_that_of_all_numbers) {
  on_workers({2, 2}, [](Strategy& strategy) {
    const Mean mean(strategy);
    // 10 numbers in batches of 4 over 4 replicas: in the last step two replicas have none
    const auto batches = strategy.experimental_distribute_dataset(Dataset<Tensor>::range(10).batch(4));
    for (const auto& batch : batches) {
      strategy.run(
          [&](const Tensor& x) {
            std::vector<float> values;
            for (const std::int64_t i : x.elements<std::int64_t>()) values.push_back(static_cast<float>(i));
            mean.update(values);
          },
          batch);
    }
    EXPECT_EQ(mean.result(), 4.5);
  });
}

TEST(Mean, weighs_numbers_and_is_0_without_any) {
  MirroredStrategy strategy = mirrored(2);
  const Mean mean(strategy);
  EXPECT_EQ(mean.result(), 0.0);
  strategy.run([&](ReplicaContext& replica) {
    if (replica.replica_id_in_sync_group() == 0) {
      mean.update(1.0, 3.0);
    } else {
      mean.update(5.0);
    }
  });
  EXPECT_EQ(mean.result(), 2.0);
}

TEST(Metrics, in_a_step_are_this_replicas_own) {
  MirroredStrategy strategy = mirrored(2);
  const Sum sum(strategy);
  const auto own = components(strategy.run([&](ReplicaContext& replica) {
    sum.update(replica.replica_id_in_sync_group() + 1.0);
    return sum.result();
  }));
  EXPECT_EQ(own, (std::vector<double>{1, 2}));
  strategy.run([&](ReplicaContext& replica) {
    if (replica.replica_id_in_sync_group() == 0) sum.reset();
  });
  EXPECT_EQ(sum.result(), 2.0);
}

TEST(Metrics, work_without_a_strategy) {
  const Mean mean(get_strategy());
  mean.update(1.0);
  mean.update(2.0);
  EXPECT_EQ(mean.result(), 1.5);
}

TEST(Accuracy, is_the_fraction_of_correct_predictions) {
  MirroredStrategy strategy = mirrored(2);
  const Accuracy accuracy(strategy);
  EXPECT_EQ(accuracy.result(), 0.0);
  strategy.run([&](ReplicaContext& replica) {
    if (replica.replica_id_in_sync_group() == 0) {
      accuracy.update(Labels{1, 2, 3}, Labels{1, 0, 3});
    } else {
      accuracy.update(Labels{7}, Labels{6});
      accuracy.update(Labels{}, Labels{});
    }
  });
  EXPECT_EQ(accuracy.result(), 0.5);
  accuracy.reset();
  strategy.run([&] { accuracy.update(2, 2); });
  EXPECT_EQ(accuracy.result(), 1.0);
}

TEST(Metrics, have_the_same_bits_for_every_layout) {
  const auto totals = [](Strategy& strategy) {
    const Mean mean(strategy);
    const Sum sum(strategy);
    for (int step = 0; step < 5; ++step) {
      strategy.run([&](ReplicaContext& replica) {
        const int id = replica.replica_id_in_sync_group();
        std::vector<float> values(static_cast<std::size_t>(3 + id));
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = std::sin(static_cast<float>(17 * id + step)) * std::pow(10.0F, static_cast<float>(i));
        mean.update(values);
        sum.update(values);
      });
    }
    return std::vector<double>{mean.result(), sum.result()};
  };
  MirroredStrategy strategy = mirrored(4);
  const auto expected = totals(strategy);
  for (const std::vector<int>& layout : {std::vector<int>{1, 1, 1, 1}, {2, 2}, {1, 3}})
    on_workers(layout, [&](Strategy& workers) { EXPECT_EQ(totals(workers), expected); });
}

TEST(Metrics, refuse_updates_outside_of_steps_and_invalid_counts) {
  MirroredStrategy strategy = mirrored(2);
  const Sum sum(strategy, "total");
  const Accuracy accuracy(strategy, "hits");
  const Scope scope = strategy.scope();
  expect_error(Code::failed_precondition,
               {"update of metric \"total\": called outside of a step function", "2 replicas"},
               [&] { sum.update(1.0); });
  expect_error(Code::failed_precondition, {"update of metric \"hits\": called outside"},
               [&] { accuracy.update(1, 2); });
  expect_error(Code::invalid_argument, {"\"hits\"", "2 labels for 1 prediction;"},
               [&] { strategy.run([&] { accuracy.update(Labels{1, 2}, Labels{1}); }); });
  expect_error(Code::invalid_argument, {"correct is 3, count 2"},
               [&] { strategy.run([&] { accuracy.update(3, 2); }); });
}

}  // namespace
}  // namespace lockstep::test
