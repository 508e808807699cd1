// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// update of variables: one copy at a time.

#include "unit/strategy/strategies.hpp"

#include <atomic>
#include <thread>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Copies = std::vector<Floats>;

TEST(Update, slices_arguments_and_returns_mirrored_results) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  const auto other = strategy.variable<float>(5.0F);
  const Mirrored<float> result = strategy.extended().update(
      variable,
      [](const auto& copy, float a, const float& b, const MirroredVariable<float>& w) {
        copy.updatable_component()[0] += a * b;
        return copy.updatable_component()[0] + w.value();
      },
      2.0F, PerReplica<float>({3, 4}), other);
  EXPECT_EQ(copies(variable), (Copies{{7}, {9}}));
  EXPECT_EQ(result.component(0), 12.0F);
  EXPECT_EQ(result.component(1), 14.0F);
}

TEST(Update, of_an_untyped_variable_gives_views) {
  MirroredStrategy strategy = mirrored(2);
  const Variable variable = strategy.variable(Tensor::from(std::vector<int>{1, 2}));
  strategy.extended().update(variable,
                             [](const Variable& copy) { static_cast<int*>(copy.updatable_component().data)[1] = 7; });
  EXPECT_EQ(elements_of<int>(variable.component(1)), (std::vector<int>{1, 7}));
}

TEST(Update, of_a_replicas_own_copy_runs_at_the_same_time_on_all) {
  MirroredStrategy strategy = mirrored(4);
  const auto variable = strategy.variable<float>(1.0F);
  std::atomic<int> inside{0};
  strategy.run([&](ReplicaContext& replica) {
    const float total = replica.all_reduce(ReduceOp::sum, 2.0F);
    const float after = replica.update(
        variable,
        [&](const auto& copy, float x) {
          ++inside;
          while (inside < 4) std::this_thread::yield();
          copy.updatable_component()[0] += x;
          return copy.updatable_component()[0];
        },
        total);
    EXPECT_EQ(after, 9.0F);
    EXPECT_EQ(variable.value(), 9.0F);
  });
  EXPECT_EQ(copies(variable), Copies(4, Floats{9}));
}

TEST(Update, is_the_only_place_where_copies_are_writable) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F, {.name = "v"});
  expect_error(Code::failed_precondition, {"\"v\"", "inside update only"},
               [&] { (void)variable.updatable_component(); });
  expect_error(Code::failed_precondition, {"inside update only"},
               [&] { strategy.run([&] { (void)variable.updatable_component(); }); });
}

TEST(Update, reads_and_writes_another_variable_copy_by_copy) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = strategy.variable<float>(1.0F);
  const auto metric = strategy.sync_on_read_variable<float>(0.0F, {.aggregation = VariableAggregation::sum});
  strategy.run([&](ReplicaContext& replica) { metric.assign(static_cast<float>(replica.local_replica() + 2)); });
  strategy.extended().update(variable, [&](const auto&) {
    variable.assign_add(metric);
    metric.assign_add(metric.value());
    EXPECT_EQ(metric.elements().size(), 1U);
  });
  EXPECT_EQ(copies(variable), (Copies{{3}, {4}}));
  EXPECT_EQ(copies(metric), (Copies{{4}, {6}}));
}

}  // namespace
}  // namespace lockstep::test
