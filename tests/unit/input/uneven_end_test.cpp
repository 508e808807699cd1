// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Datasets of which replicas reach the end at different steps, with strategies.

#include <lockstep/lockstep.hpp>

#include "input/number_files.hpp"
#include "input/numbers.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep {
namespace {

using Batch = PerReplica<Tensor>;

struct Seen {
  std::mutex mutex;
  std::vector<Numbers> elements;   // by rank
  std::vector<int> steps;          // by rank
  std::vector<double> sums;        // results of reduce(mean) and GlobalMean on rank 0, times their counts
  std::vector<std::int64_t> rows;  // by step
};

/// Runs all steps on one rank: adds the elements of its replicas to `seen`, and compares both means of each step.
void run_all(Strategy& strategy, const DistributedDataset<Tensor>& distributed, Seen& seen) {
  const int rank = strategy.communicator().rank();
  Numbers mine;
  int steps = 0;
  for (const Batch& batch : distributed) {
    ++steps;
    const auto results = strategy.run(
        [](ReplicaContext& replica, const Tensor& x) {
          EXPECT_EQ(x.shape().rank(), 1);
          EXPECT_EQ(replica.has_data(), x.shape()[0] != 0);
          double sum = 0;
          for (const std::int64_t number : x.elements<std::int64_t>()) sum += static_cast<double>(number);
          const GlobalMean mean = global_mean(replica, sum, x.element_count());
          return std::tuple(mean.sum(), mean.count(), mean.value());
        },
        batch);
    const double sum = std::get<0>(results).component(0);
    const std::int64_t count = std::get<1>(results).component(0);
    if (count != 0) {
      const double expected = sum / static_cast<double>(count);
      EXPECT_EQ(std::get<2>(results).component(0), expected);
      EXPECT_EQ(strategy.reduce(ReduceOp::mean, batch, 0).elements<double>()[0], expected);
    }
    for (int i = 0; i < batch.size(); ++i) {
      const auto elements = batch.component(i).elements<std::int64_t>();
      mine.insert(mine.end(), elements.begin(), elements.end());
    }
    if (rank == 0) {
      seen.sums.push_back(sum);
      seen.rows.push_back(count);
    }
  }
  const std::lock_guard lock(seen.mutex);
  seen.elements[static_cast<std::size_t>(rank)] = std::move(mine);
  seen.steps[static_cast<std::size_t>(rank)] = steps;
}

Numbers sorted(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void check(const Seen& seen, std::int64_t rows, bool once_per_rank) {
  Numbers expected(static_cast<std::size_t>(rows));
  std::iota(expected.begin(), expected.end(), std::int64_t{0});
  for (const int steps : seen.steps) EXPECT_EQ(steps, seen.steps.front());
  Numbers all;
  for (const Numbers& elements : seen.elements) {
    if (once_per_rank) {
      EXPECT_EQ(sorted(elements), expected);
    }
    all.insert(all.end(), elements.begin(), elements.end());
  }
  const auto times = static_cast<std::int64_t>(once_per_rank ? seen.elements.size() : 1);
  if (!once_per_rank) {
    EXPECT_EQ(sorted(all), expected);
  }
  EXPECT_EQ(std::accumulate(seen.rows.begin(), seen.rows.end(), std::int64_t{0}), times * rows);
  EXPECT_EQ(std::accumulate(seen.sums.begin(), seen.sums.end(), 0.0),
            static_cast<double>(times * rows * (rows - 1) / 2));
}

/// Ranks, split and shard policy.
using Setting = std::tuple<int, SplitPolicy, AutoShardPolicy>;

class UnevenEnd : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Input, UnevenEnd,
                         testing::Combine(testing::Values(2, 3, 4),
                                          testing::Values(SplitPolicy::fixed_chunks, SplitPolicy::ceil_slices),
                                          testing::Values(AutoShardPolicy::automatic, AutoShardPolicy::file,
                                                          AutoShardPolicy::data, AutoShardPolicy::off,
                                                          AutoShardPolicy::hint)),
                         [](const auto& setting) {
                           return std::to_string(std::get<0>(setting.param)) + "_ranks_" +
                                  std::string(to_string(std::get<1>(setting.param))) + "_" +
                                  std::string(to_string(std::get<2>(setting.param)));
                         });

/// The numbers below `rows`, distributed over `count` files.
std::unique_ptr<test::NumberFiles> files_of(std::int64_t rows, int count) {
  std::vector<Numbers> files(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < rows; ++i) files[static_cast<std::size_t>(i * i % count)].push_back(i);
  return std::make_unique<test::NumberFiles>(files);
}

TEST_P(UnevenEnd, of_random_data_is_reached_by_all_ranks_in_the_same_step_after_every_element) {
  const auto [ranks, split, policy] = GetParam();
  const int seed = ranks * 100 + static_cast<int>(split) * 10 + static_cast<int>(policy);
  std::mt19937 random(static_cast<unsigned>(seed));  // the same numbers everywhere
  const auto below = [&random](std::uint32_t bound) { return static_cast<std::int64_t>(random() % bound); };
  struct Case {
    std::int64_t rows;
    std::int64_t batch;
    bool known;
    std::unique_ptr<test::NumberFiles> files;
  };
  std::vector<Case> cases;
  for (int i = 0; i < (test::is_quick() ? 7 : 20); ++i) {
    cases.push_back({below(30), 1 + below(12), i % 2 == 0, nullptr});
    if (policy == AutoShardPolicy::file) cases.back().files = files_of(cases.back().rows, ranks + i % 3);
  }
  std::vector<Seen> seen(cases.size());
  for (Seen& one : seen) {
    one.elements.resize(static_cast<std::size_t>(ranks));
    one.steps.resize(static_cast<std::size_t>(ranks));
  }
  std::vector<int> layout(static_cast<std::size_t>(ranks), 1 + static_cast<int>(below(2)));
  if (policy == AutoShardPolicy::automatic) layout.back() = 2;  // any layout
  const InputOptions options{.split = split, .auto_shard_policy = policy};
  test::on_ranks(layout, [&](Communicator& communicator) {
    MultiWorkerMirroredStrategy strategy(communicator);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Case& now = cases[i];
      auto rows = now.known ? Dataset<Tensor>::range(now.rows) : stream(now.rows);
      if (policy == AutoShardPolicy::file) rows = now.known ? now.files->records() : now.files->lines();
      if (policy == AutoShardPolicy::hint) rows = rows.shard(shard_hint, shard_hint);
      run_all(strategy, strategy.experimental_distribute_dataset(rows.batch(cases[i].batch), options), seen[i]);
    }
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ": " + std::to_string(cases[i].rows) + " rows in batches of " +
                 std::to_string(cases[i].batch));
    check(seen[i], cases[i].rows, policy == AutoShardPolicy::off);
  }
}

TEST(UnevenEnd_, is_seen_in_the_replica_context) {
  MirroredStrategy strategy({"cpu:0", "cpu:1"});
  const auto distributed = strategy.experimental_distribute_dataset(Dataset<Tensor>::range(5).batch(4));
  auto iterator = distributed.iterate();
  const auto has_data = [](ReplicaContext& replica, const Tensor&) { return replica.has_data(); };
  const auto full = strategy.run(has_data, iterator.get_next());
  EXPECT_TRUE(full.component(0) && full.component(1));
  const Batch last = iterator.get_next();
  const auto short_step = strategy.run(has_data, last);
  EXPECT_TRUE(short_step.component(0));
  EXPECT_FALSE(short_step.component(1));
  // of trees too, and only in the current step
  const auto pair = strategy.run([](const Tensor& x) { return std::pair(x, x); }, last);
  EXPECT_FALSE(
      strategy.run([](ReplicaContext& replica, const auto&) { return replica.has_data(); }, pair).component(1));
  EXPECT_TRUE(strategy.run([](ReplicaContext& replica) { return replica.has_data(); }).component(1));
  EXPECT_TRUE(strategy.run([](ReplicaContext& replica, int) { return replica.has_data(); }, 3).component(1));
}

/// The sequence number of the next collective of `communicator`, taken from the error of a mismatch.
std::int64_t next_collective(Communicator& communicator) {
  std::vector<float> values(communicator.rank() == 0 ? 1 : 2);
  const TensorView output = view_of(std::span<float>(values));
  const ConstTensorView input(output);
  const Item item{std::span(&input, 1), std::span(&output, 1)};
  try {
    communicator.all_reduce(std::span(&item, 1), ReduceOp::sum);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::mismatch) << error.what();
    return error.sequence();
  }
  ADD_FAILURE() << "ranks that differ have not been found out";
  return -1;
}

TEST(UnevenEnd_, uses_a_collective_per_step_only_if_the_length_is_unknown) {
  test::on_ranks({1, 1}, [](Communicator& communicator) {
    const auto number_after = [&](const Dataset<Tensor>& dataset, AutoShardPolicy policy) {
      Communicator own = communicator.duplicate({});
      for (const Batch& batch :
           input::distribute(dataset, {own.layout(), own.rank(), own}, {.auto_shard_policy = policy}))
        static_cast<void>(batch);
      return next_collective(own);
    };
    const std::int64_t none = number_after(Dataset<Tensor>::range(0).batch(2), AutoShardPolicy::automatic);
    EXPECT_EQ(number_after(stream(20).batch(2), AutoShardPolicy::automatic), none);
    EXPECT_EQ(number_after(stream(20).batch(2), AutoShardPolicy::data), none);
    EXPECT_EQ(number_after(Dataset<Tensor>::range(20).batch(2), AutoShardPolicy::off), none + 1);
    EXPECT_EQ(number_after(stream(20).batch(2), AutoShardPolicy::off), none + 1 + 20 + 1);
  });
}

TEST(PerReplicaDatasets, are_for_mirrored_strategies_only) {
  const auto one = [](const InputContext&) { return Dataset<Tensor>::range(4).batch(2); };
  const InputOptions options{.experimental_replication_mode = InputReplicationMode::per_replica};
  test::on_ranks({1, 1}, [&](Communicator& communicator) {
    MultiWorkerMirroredStrategy strategy(communicator);
    try {
      static_cast<void>(strategy.distribute_datasets_from_function(one, options));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unimplemented);
      EXPECT_NE(error.text().find("this is MultiWorkerMirroredStrategy; use PER_WORKER"), std::string::npos)
          << error.text();
    }
  });
  OneDeviceStrategy one_device("cpu:0");
  EXPECT_THROW(static_cast<void>(one_device.distribute_datasets_from_function(one, options)), Error);
  MirroredStrategy mirrored({"cpu:0", "cpu:1"});
  const auto first = mirrored.distribute_datasets_from_function(one, options).iterate().get_next();
  EXPECT_EQ(first.component(1).elements<std::int64_t>()[0], 0);
}

}  // namespace
}  // namespace lockstep
