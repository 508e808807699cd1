// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategies whose GPUs are out of memory, fail, or are released with pending work.

#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "unit/strategy/gpu_strategies.hpp"

#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using detail::cuda::Status;

/// Text of the std::bad_alloc that `body` throws; "none" if it returns.
std::string shortage_in(FunctionRef<void()> body) {
  try {
    body();
  } catch (const std::bad_alloc& error) {
    return error.what();
  }
  return "none";
}

/// The sum over all replicas of the copies of `variable`, computed in a step.
std::vector<float> sum_of(Strategy& strategy, const Variable& variable) {
  const auto sums = strategy.run([&](ReplicaContext& replica) { return replica.all_reduce("SUM", variable.read()); });
  return elements_from<float>(sums.component(0));
}

/// Runs `body(strategy)` on `ranks` ranks with one GPU each.
void on_workers_with_gpus(int ranks, FunctionRef<void(Strategy&)> body) {
  on_ranks(
      std::vector<int>(static_cast<std::size_t>(ranks), 1),
      [&](Communicator& communicator) {
        MultiWorkerOptions options;
        options.devices = std::vector<Device>{gpu(communicator.rank())};
        MultiWorkerMirroredStrategy strategy(communicator, options);
        body(strategy);
      },
      short_deadline(30'000));
}

TEST(FullGpus, fail_only_the_variable_and_on_every_rank) {
  const FakeGpus gpus({.devices = 2, .memory_bytes = std::size_t{4} << 20});
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    options.devices = std::vector<Device>{gpu(communicator.rank())};
    MultiWorkerMirroredStrategy strategy(communicator, options);
    const Variable kept = strategy.variable(Tensor::from(std::vector{1.0F, 2.0F}), {.name = "kept"});
    std::optional<Tensor> ballast;  // leaves too little memory for a large variable
    if (communicator.rank() == 1) ballast.emplace(DType::u8, Shape{3'900'000}, nullptr, gpu(1));
    const Tensor large(DType::f32, Shape{100'000});
    const auto make_and_use = [&] { (void)sum_of(strategy, strategy.variable(large, {.name = "large"})); };
    for (int twice = 0; twice < 2; ++twice) {  // the second error has the same text, and is propagated again
      if (communicator.rank() == 1) {
        EXPECT_EQ(shortage_in(make_and_use), "out of memory on gpu:1: 400000 bytes requested");
      } else {
        expect_all(error_of(make_and_use),
                   {"unavailable:", "out of memory on gpu:1: 400000 bytes requested", "rank 1"});
      }
    }
    EXPECT_EQ(copies_from<float>(kept).front(), (std::vector{1.0F, 2.0F}));
    ballast.reset();
    EXPECT_EQ(sum_of(strategy, kept), (std::vector{2.0F, 4.0F}));
    EXPECT_EQ(sum_of(strategy, strategy.variable(large, {.name = "large"})).size(), 100'000U);
  });
}

/// A call that allocates 100 000 numbers on the GPU of each rank.
struct WantsRoom {
  std::string name;
  std::function<void(Strategy&, const PerReplica<Tensor>& values, const Variable& variable)> call;
};

std::vector<WantsRoom> calls_that_want_room() {
  using Pair = std::pair<PerReplica<Tensor>, Device>;
  const auto here = [](Strategy& strategy) { return strategy.extended().worker_devices().front(); };
  return {
      {"reduce_to", [=](Strategy& s, const auto& x, const auto&) { (void)s.extended().reduce_to("SUM", x, here(s)); }},
      {"batch_reduce_to",
       [=](Strategy& s, const auto& x, const auto&) {
         (void)s.extended().batch_reduce_to("SUM", std::vector{Pair(x, here(s))});
       }},
      {"batch_reduce_to of kinds",
       [](Strategy& s, const auto& x, const auto& v) {
         (void)s.extended().batch_reduce_to("SUM", std::vector<ReducePair>{{x, v}});
       }},
      {"broadcast_to", [](Strategy& s, const auto&,
                          const auto& v) { (void)s.extended().broadcast_to(Tensor(DType::f32, Shape{100'000}), v); }},
      {"assign_add", [](Strategy&, const auto&, const auto& v) { v.assign_add(Tensor(DType::f32, Shape{100'000})); }},
  };
}

TEST(FullGpus, of_one_rank_are_propagated_outside_of_steps_too) {
  for (const WantsRoom& wants : calls_that_want_room()) {
    SCOPED_TRACE(wants.name);
    const FakeGpus gpus({.devices = 2, .memory_bytes = std::size_t{4} << 20});
    const auto begin = std::chrono::steady_clock::now();
    on_workers_with_gpus(2, [&](Strategy& strategy) {
      const Device mine = strategy.extended().worker_devices().front();
      const bool is_full = strategy.communicator().rank() == 1;
      const Variable kept = strategy.variable(Tensor::from(std::vector{1.0F, 2.0F}), {.name = "kept"});
      const Variable large = strategy.variable(Tensor(DType::f32, Shape{100'000}), {.name = "large"});
      const auto values =
          strategy.run([](ReplicaContext& replica) { return tensor_of(replica, std::vector<float>(100'000, 1.0F)); });
      std::optional<Tensor> ballast;
      if (is_full) ballast.emplace(DType::u8, Shape{3'150'000}, nullptr, mine);
      // the second failure is propagated again
      for (int twice = 0; twice < 2; ++twice) {
        const auto call_and_go_on = [&] {
          wants.call(strategy, values, large);
          (void)sum_of(strategy, kept);
        };
        if (is_full) {
          EXPECT_EQ(shortage_in(call_and_go_on), "out of memory on gpu:1: 400000 bytes requested");
        } else {
          expect_all(error_of(call_and_go_on),
                     {"unavailable:", "out of memory on gpu:1: 400000 bytes requested", "rank 1"});
        }
      }
      ballast.reset();
      EXPECT_EQ(sum_of(strategy, kept), (std::vector{2.0F, 4.0F}));
      wants.call(strategy, values, large);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  }
}

TEST_F(OnGpus, that_are_full_fail_a_step_and_leave_variables_as_they_were) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const Variable v = strategy.variable(Tensor::from(std::vector{1.0F, 2.0F}), aggregated_by(VariableAggregation::sum));
  const auto step = [&](ReplicaContext& replica) {
    const Tensor given = tensor_of(replica, std::vector{10.0F, 20.0F});
    v.assign_add(replica.all_reduce("SUM", given));
  };
  for (const int nth : {1, 2}) {
    gpus_.cuda().calls().fail("malloc_from_pool_async", nth, Status::out_of_memory);
    const std::string text = shortage_in([&] { strategy.run(step); });
    EXPECT_NE(text.find("8 bytes requested"), std::string::npos) << text;
    EXPECT_EQ(copies_from<float>(v), (std::vector<std::vector<float>>(2, {1.0F, 2.0F})));
  }
  strategy.run(step);
  EXPECT_EQ(copies_from<float>(v), (std::vector<std::vector<float>>(2, {41.0F, 82.0F})));
}

TEST_F(OnGpus, that_have_failed_cause_errors_without_a_hang_or_damage_to_the_host) {
  {
    MirroredStrategy strategy({"gpu:0", "gpu:1"});
    const Variable v = strategy.variable(Tensor::from(std::vector{1.0F}), aggregated_by(VariableAggregation::sum));
    EXPECT_EQ(sum_of(strategy, v), std::vector{2.0F});
    ASSERT_TRUE(gpus_.cuda().wait_for_all());
    gpus_.cuda().fail_next_work(0, Status::illegal_address);
    for (int step = 0; step < 3; ++step) expect_all(error_of([&] { (void)sum_of(strategy, v); }), {"unavailable:"});
    expect_all(error_of([&] { (void)v.component(0).to(Device{}); }), {"cudaErrorIllegalAddress"});
    EXPECT_EQ(elements_from<float>(v.component(1)), std::vector{1.0F});
  }
  MirroredStrategy on_host({"cpu:0", "cpu:1"});
  EXPECT_EQ(on_host.reduce("SUM", on_host.run([] { return 1; })), 2);
}

TEST_F(OnGpus, keep_variables_and_results_of_a_destroyed_strategy) {
  std::optional<Variable> v;
  std::vector<Tensor> sums;
  {
    MirroredStrategy strategy({"gpu:0", "gpu:1"});
    v = strategy.variable(Tensor::from(std::vector{1.0F}), aggregated_by(VariableAggregation::sum));
    sums = components(strategy.run([&](ReplicaContext& replica) {
      v->assign_add(tensor_of(replica, std::vector{3.0F}));
      return replica.all_reduce("SUM", tensor_of(replica, std::vector<float>(5'000, 2.0F)));
    }));
  }
  EXPECT_EQ(copies_from<float>(*v), (std::vector<std::vector<float>>(2, {7.0F})));
  for (const Tensor& sum : sums) EXPECT_EQ(elements_from<float>(sum), std::vector<float>(5'000, 4.0F));
}

}  // namespace
}  // namespace lockstep::test
