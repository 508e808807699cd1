// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategies with the user's cross-device ops and communication options.

#include "unit/strategy/strategies.hpp"
#include "virtual_time/virtual_time.hpp"

#include <chrono>
#include <latch>
#include <memory>
#include <tuple>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

/// Adds from the last replica to the first, so that its sums can be recognized.
void add_backwards(std::span<const ConstTensorView> values, TensorView sum) {
  float* const to = static_cast<float*>(sum.data);
  for (std::size_t r = values.size(); r-- > 0;) {
    for (std::int64_t i = 0; i < sum.element_count(); ++i) to[i] += static_cast<const float*>(values[r].data)[i];
  }
}

/// Counts its calls.
class Counting : public AllReduceCrossDeviceOps {
 public:
  int calls = 0;
  std::size_t items = 0;

 protected:
  void do_batch_reduce(Communicator& communicator, std::span<const Item> list, ReduceOp op,
                       const CommunicationOptions& options) override {
    ++calls;
    items += list.size();
    AllReduceCrossDeviceOps::do_batch_reduce(communicator, list, op, options);
  }
};

TEST(CrossDeviceOps_, of_the_user_reduce_all_values_of_the_strategy) {
  const auto ops = std::make_shared<Counting>();
  MirroredStrategy strategy(logical_cpus(2), ops);
  const PerReplica<float> x({1, 2});
  EXPECT_EQ(strategy.reduce("SUM", x), 3.0F);
  EXPECT_EQ(ops->calls, 1);
  EXPECT_EQ(strategy.extended().reduce_to("SUM", x, x).value(), 3.0F);
  EXPECT_EQ(strategy.extended().batch_reduce_to("SUM", std::vector{std::pair(x, x), std::pair(x, x)}).size(), 2U);
  EXPECT_EQ(ops->calls, 3);
  EXPECT_EQ(ops->items, 4U);
  EXPECT_EQ(strategy.reduce("MEAN", PerReplica<Floats>({{5, 6}, {7}}), 0), 6.0F);
  EXPECT_EQ(ops->calls, 4);
  const auto variable = strategy.variable<float>(0.0F, {.aggregation = VariableAggregation::sum});
  strategy.run([&](ReplicaContext& r) {
    EXPECT_EQ(r.all_reduce("SUM", 1.0F), 2.0F);
    variable.assign_add(1.0F);
  });
  EXPECT_EQ(ops->calls, 6);
  EXPECT_EQ(variable.value(), 2.0F);
}

TEST(CrossDeviceOps_, return_the_results_of_a_user_function_or_canonical_sums_without_one) {
  const PerReplica<float> x({1e8F, 1, -1e8F, 1, 1});
  MirroredStrategy canonical(logical_cpus(5), std::make_shared<ReductionToOneDevice>());
  EXPECT_EQ(canonical.reduce("SUM", x), 1.0F);
  MirroredStrategy backwards(logical_cpus(5), std::make_shared<ReductionToOneDevice>(std::nullopt, &add_backwards));
  EXPECT_EQ(backwards.reduce("SUM", x), 0.0F);  // 1 + 1 - 1e8 + 1 + 1e8 in f32
  EXPECT_EQ(backwards.reduce("MEAN", PerReplica<float>({1, 2, 3, 4, 5})), 3.0F);
  EXPECT_EQ(backwards.reduce(ReduceOp::max, x), 1e8F);
}

TEST(CrossDeviceOps_, may_throw_and_the_strategy_stays_usable) {
  bool broken = true;
  const auto fail = [&](std::span<const ConstTensorView> values, TensorView sum) {
    if (broken) throw std::runtime_error("cannot add");
    add_backwards(values, sum);
  };
  MirroredStrategy strategy(logical_cpus(2), std::make_shared<ReductionToOneDevice>(std::nullopt, fail));
  const PerReplica<float> x({1, 2});
  EXPECT_THROW((void)strategy.reduce("SUM", x), std::runtime_error);
  EXPECT_THROW(strategy.run([](ReplicaContext& r) { (void)r.all_reduce("SUM", 1.0F); }), std::runtime_error);
  broken = false;
  EXPECT_EQ(strategy.reduce("SUM", x), 3.0F);
}

TEST(Describe, names_layout_devices_reducer_and_the_reason) {
  const std::string text = mirrored(2).describe();
  for (const char* part :
       {"MirroredStrategy #", ": 2 replicas", "cpu:0 cpu:1", "[2]", "AllReduceCrossDeviceOps(num_packs 1)",
        "canonical order", "no cross_device_ops were given"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
  }
  MirroredStrategy own(logical_cpus(1), std::make_shared<ReductionToOneDevice>(std::nullopt, &add_backwards));
  EXPECT_NE(own.describe().find("an order of its own, because it was given as cross_device_ops"), std::string::npos)
      << own.describe();
  on_workers({2, 1}, [](Strategy& strategy) {
    EXPECT_NE(strategy.describe().find("replicas per rank [2, 1]"), std::string::npos) << strategy.describe();
  });
}

TEST(CommunicationOptions_, of_a_strategy_set_its_deadline) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    options.communication_options.timeout_seconds = 0.5;
    MultiWorkerMirroredStrategy strategy(communicator, options);
    const auto start = std::chrono::steady_clock::now();
    if (communicator.rank() == 0) {
      expect_error(Code::deadline_exceeded, {"rank 1"},
                   [&] { strategy.run([](ReplicaContext& r) { (void)r.all_reduce("SUM", 1.0F); }); });
      EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
      if (virtual_time::is_active()) {
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(600));
      }
    }
    communicator.barrier();
  });
}

TEST(CommunicationOptions_, of_one_call_set_the_deadline_of_that_call) {
  std::latch has_failed(1);
  on_workers({1, 1}, [&has_failed](Strategy& strategy) {
    if (strategy.communicator().rank() == 0) {
      expect_error(Code::deadline_exceeded, {"rank 1", "0.3 s"}, [&] {
        strategy.run([](ReplicaContext& r) { (void)r.all_reduce("SUM", 1.0F, {.timeout_seconds = 0.3}); });
      });
      has_failed.count_down();
    } else {
      // the failure of the other rank, as soon as this one makes the call
      const auto x = strategy.run([] { return 1.0F; });
      expect_error(Code::deadline_exceeded, {"rank 1"}, [&] {
        has_failed.wait();
        (void)strategy.reduce("SUM", x);
      });
    }
    EXPECT_EQ(strategy.reduce("SUM", strategy.run([] { return 1; })), 2);
  });
}

TEST(CommunicationOptions_, do_not_change_errors_on_any_rank) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    options.communication_options.bytes_per_pack = 4;
    MultiWorkerMirroredStrategy strategy(communicator, options);
    const std::size_t size = communicator.rank() == 0 ? 2 : 3;
    expect_error(Code::mismatch, {"[2]", "[3]"}, [&] {
      strategy.run([&](ReplicaContext& r) { (void)r.all_reduce("SUM", std::tuple(1.0F, Floats(size), 1.0F)); });
    });
    const auto tree = strategy.run([] { return std::tuple(1.0F, Floats{1, 2}, 3); });
    const auto sums = strategy.reduce("SUM", tree);
    EXPECT_EQ(std::get<1>(sums), (Floats{2, 4}));
    EXPECT_EQ(std::get<2>(sums), 6);
  });
}

TEST(CommunicationOptions_, that_require_an_unavailable_implementation_are_refused) {
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    options.communication_options.implementation = "NCCL";
    expect_error(Code::unavailable, {"NCCL", "AUTO or RING"},
                 [&] { MultiWorkerMirroredStrategy strategy(communicator, options); });
  });
  MirroredStrategy strategy = mirrored(2);
  expect_error(Code::unavailable, {"NCCL"}, [&] {
    strategy.run([](ReplicaContext& r) { (void)r.all_reduce("SUM", 1.0F, {.implementation = "NCCL"}); });
  });
}

}  // namespace
}  // namespace lockstep::test
