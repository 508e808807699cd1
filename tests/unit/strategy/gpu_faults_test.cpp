// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategies whose GPUs have no memory left, fail, or are given back with work under way.

#include "support/errors.hpp"
#include "unit/strategy/gpu_strategies.hpp"

#include <new>
#include <optional>

namespace lockstep::test {
namespace {

using detail::cuda::Status;

/// What the std::bad_alloc that `body` throws says; "none" when it returns.
std::string shortage_in(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::bad_alloc& error) {
    return error.what();
  }
  return "none";
}

/// Sums over all replicas what `variable` has on each, in a step.
std::vector<float> sum_of(Strategy& strategy, const Variable& variable) {
  const auto sums = strategy.run([&](ReplicaContext& replica) { return replica.all_reduce("SUM", variable.read()); });
  return elements_from<float>(sums.component(0));
}

TEST(FullGpus, fail_a_variable_on_every_rank_and_nothing_else) {
  const FakeGpus gpus({.devices = 2, .memory_bytes = std::size_t{4} << 20});
  on_ranks({1, 1}, [](Communicator& communicator) {
    MultiWorkerOptions options;
    options.devices = std::vector<Device>{gpu(communicator.rank())};
    MultiWorkerMirroredStrategy strategy(communicator, options);
    const Variable kept = strategy.variable(Tensor::from(std::vector{1.0F, 2.0F}), {.name = "kept"});
    std::optional<Tensor> ballast;  // leaves no room for a large one
    if (communicator.rank() == 1) ballast.emplace(DType::u8, Shape{3'900'000}, nullptr, gpu(1));
    const Tensor large(DType::f32, Shape{100'000});
    const auto make_and_use = [&] { (void)sum_of(strategy, strategy.variable(large, {.name = "large"})); };
    if (communicator.rank() == 1) {
      EXPECT_EQ(shortage_in(make_and_use), "gpu:1 has no 400000 bytes of memory left");
    } else {
      expect_all(error_of(make_and_use), {"unavailable:", "gpu:1 has no 400000 bytes of memory left", "rank 1"});
    }
    EXPECT_EQ(copies_from<float>(kept).front(), (std::vector{1.0F, 2.0F}));
    ballast.reset();
    EXPECT_EQ(sum_of(strategy, kept), (std::vector{2.0F, 4.0F}));
    EXPECT_EQ(sum_of(strategy, strategy.variable(large, {.name = "large"})).size(), 100'000U);
  });
}

TEST_F(OnGpus, that_are_full_fail_a_step_and_leave_variables_as_they_were) {
  MirroredStrategy strategy({"gpu:0", "gpu:1"});
  const Variable v = strategy.variable(Tensor::from(std::vector{1.0F, 2.0F}), aggregated_by(VariableAggregation::sum));
  const auto step = [&](ReplicaContext& replica) {
    const Tensor given = tensor_of(replica, std::vector{10.0F, 20.0F});
    v.assign_add(replica.all_reduce("SUM", given));
  };
  for (const int nth : {1, 2}) {
    gpus_.cuda().calls().fail("malloc_async", nth, Status::out_of_memory);
    const std::string text = shortage_in([&] { strategy.run(step); });
    EXPECT_NE(text.find("has no 8 bytes of memory left"), std::string::npos) << text;
    EXPECT_EQ(copies_from<float>(v), (std::vector<std::vector<float>>(2, {1.0F, 2.0F})));
  }
  strategy.run(step);
  EXPECT_EQ(copies_from<float>(v), (std::vector<std::vector<float>>(2, {41.0F, 82.0F})));
}

TEST_F(OnGpus, that_have_failed_are_errors_and_no_hang_and_harm_no_host) {
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

TEST_F(OnGpus, keep_variables_and_results_whose_strategy_has_gone) {
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
