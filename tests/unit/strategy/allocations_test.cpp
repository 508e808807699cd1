// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Steady steps do not allocate memory. A separate program, since it counts all allocations.

#include <lockstep/collectives/location.hpp>

#include "support/counted_allocations.hpp"
#include "support/function_ref.hpp"
#include "support/ranks.hpp"
#include "unit/strategy/strategies.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::test {
namespace {

/// Number of allocations in `steps` calls of `step`, after some calls that may allocate.
long steady_allocations(FunctionRef<void()> step) {
  constexpr int steps = 100;
  for (int i = 0; i < 5; ++i) step();
  const long before = allocations;
  for (int i = 0; i < steps; ++i) step();
  return allocations - before;
}

TEST(SteadyStep, of_a_function_that_returns_nothing_allocates_nothing) {
  for (const int replicas : {1, 2, 4}) {
    MirroredStrategy strategy = mirrored(replicas);
    EXPECT_EQ(steady_allocations([&] { strategy.run([] {}); }), 0) << replicas << " replicas";
  }
}

TEST(SteadyStep, that_reduces_gradients_in_place_allocates_nothing) {
  constexpr std::size_t tensors = 161;
  for (const int replicas : {1, 2, 4}) {
    MirroredStrategy strategy = mirrored(replicas);
    std::vector<std::vector<Tensor>> gradients(static_cast<std::size_t>(replicas));
    std::vector<std::vector<TensorView>> views(static_cast<std::size_t>(replicas));
    for (std::size_t r = 0; r < gradients.size(); ++r) {
      for (std::size_t k = 0; k < tensors; ++k) gradients[r].push_back(Tensor::from(std::vector<float>(16, 1.0F)));
      for (Tensor& gradient : gradients[r]) views[r].push_back(gradient.view());
    }
    EXPECT_EQ(steady_allocations([&] {
                strategy.run([&](ReplicaContext& replica) {
                  const auto& mine = views[static_cast<std::size_t>(replica.local_replica())];
                  replica.all_reduce(ReduceOp::mean, std::span<const TensorView>(mine));
                });
              }),
              0)
        << replicas << " replicas";
    EXPECT_EQ(gradients.front().back().elements<float>().front(), 1.0F);
  }
}

TEST(SteadyStep, that_reduces_spans_in_place_allocates_nothing) {
  for (const int replicas : {1, 2, 4}) {
    MirroredStrategy strategy = mirrored(replicas);
    std::vector<std::array<float, 8>> values(static_cast<std::size_t>(replicas));
    EXPECT_EQ(steady_allocations([&] {
                strategy.run([&](ReplicaContext& replica) {
                  auto& mine = values[static_cast<std::size_t>(replica.local_replica())];
                  replica.all_reduce(ReduceOp::sum,
                                     std::tuple(std::span<float>(mine).first(3), std::span<float>(mine).subspan(3)));
                });
              }),
              0)
        << replicas << " replicas";
  }
}

TEST(SteadyStep, that_updates_a_variable_allocates_nothing) {
  for (const int replicas : {1, 2, 4}) {
    MirroredStrategy strategy = mirrored(replicas);
    const auto variable = strategy.variable<float>(std::vector<float>(100));
    EXPECT_EQ(steady_allocations([&] {
                strategy.run([&](ReplicaContext& replica) {
                  replica.update(variable, [](const auto& copy) { copy.updatable_component()[7] += 1; });
                });
              }),
              0)
        << replicas << " replicas";
    EXPECT_EQ(steady_allocations([&] {
                strategy.extended().update(variable, [](const auto& copy) { copy.updatable_component()[7] += 1; });
              }),
              0)
        << replicas << " replicas, in cross-replica context";
    const std::vector<float> values(100, 2.0F);
    EXPECT_EQ(steady_allocations(
                  [&] { strategy.extended().update(variable, [](auto& v, auto& a) { v.assign(a); }, values); }),
              0)
        << replicas << " replicas, by assign";
  }
}

TEST(SteadyCall, of_minloc_with_few_values_allocates_nothing) {
  on_ranks({1, 1}, [](Communicator& comm) {
    std::array<double, 10> values{};
    std::array<std::int64_t, 10> indices{};
    const auto call = [&] { minloc(comm, values, indices, {.name = "a name that is not short"}); };
    for (int i = 0; i < 5; ++i) call();
    const long before = allocations;
    for (int i = 0; i < 100; ++i) call();
    const long after = allocations;
    call();  // the other rank counts until here
    EXPECT_EQ(after - before, 0);
  });
}

}  // namespace
}  // namespace lockstep::test
