// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Values that were made for other replicas than those of the rank that uses them.

#include "unit/strategy/strategies.hpp"

#include <map>
#include <tuple>
#include <utility>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

PerReplica<float> numbers(int count, int first = 0) {
  return {count, first, [](int i) { return static_cast<float>(i); }};
}
PerReplica<Floats> lists(int count, int first = 0) {
  return {count, first, [](int i) { return Floats{static_cast<float>(i)}; }};
}
PerReplica<IndexedSlices> sparse(int count, int first = 0) {
  return {count, first, [](int) { return slices({0}, {1}, 3); }};
}

/// Expects that `use(count, first)`, which gives `call` a value of `count` components, is refused by name.
template <class Use>
void expect_refused(const std::string& call, const std::string& value, const Use& use) {
  for (const int count : {2, 4}) {
    SCOPED_TRACE(call + " of " + std::to_string(count));
    expect_error(Code::invalid_argument,
                 {call + ": " + value, "has " + std::to_string(count) + " components", "this rank has 3 replicas"},
                 [&] { use(count, 0); });
  }
  SCOPED_TRACE(call + " of other replicas");
  expect_error(Code::invalid_argument,
               {call + ": " + value, "begins with the component of replica 5", "the first replica of this rank is 0"},
               [&] { use(3, 5); });
}

TEST(ValueOfOtherReplicas, is_refused_by_run) {
  MirroredStrategy strategy = mirrored(3);
  int calls = 0;
  expect_refused("run", "argument 1",
                 [&](int count, int first) { strategy.run([&](float) { ++calls; }, numbers(count, first)); });
  expect_refused("run", "argument 2", [&](int count, int first) {
    const std::map<std::string, PerReplica<float>> tree{{"k", numbers(count, first)}};
    strategy.run([&](int, const std::map<std::string, float>&) { ++calls; }, 1, tree);
  });
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(components(strategy.run([](float x) { return x; }, numbers(3))), (Floats{0, 1, 2}));
}

TEST(ValueOfOtherReplicas, is_refused_by_run_if_its_copies_are_not_those_of_all_devices) {
  MirroredStrategy strategy = mirrored(3);
  expect_error(Code::invalid_argument, {"run: argument 1", "has 2 components", "3 replicas"},
               [&] { strategy.run([](float) {}, Mirrored<float>({5, 5})); });
  EXPECT_EQ(components(strategy.run([](float x) { return x; }, Mirrored<float>({5}))), (Floats{5, 5, 5}));
}

TEST(ValueOfOtherReplicas, is_refused_by_reductions) {
  MirroredStrategy strategy = mirrored(3);
  auto& extended = strategy.extended();
  expect_refused("reduce", "value", [&](int count, int first) { (void)strategy.reduce("SUM", numbers(count, first)); });
  expect_refused("reduce", "value", [&](int count, int first) { (void)strategy.reduce("SUM", sparse(count, first)); });
  expect_refused("reduce", "value",
                 [&](int count, int first) { (void)strategy.reduce("SUM", lists(count, first), 0); });
  expect_refused("gather", "value", [&](int count, int first) { (void)strategy.gather(lists(count, first), 0); });
  expect_refused("reduce_to", "value",
                 [&](int count, int first) { (void)extended.reduce_to("SUM", numbers(count, first), "cpu:0"); });
  expect_refused("batch_reduce_to", "value", [&](int count, int first) {
    (void)extended.batch_reduce_to("SUM", std::vector{std::pair(numbers(count, first), std::string("cpu:0"))});
  });
}

TEST(ValueOfOtherReplicas, is_refused_by_update) {
  MirroredStrategy strategy = mirrored(3);
  auto& extended = strategy.extended();
  const auto variable = strategy.variable<float>(1.0F);
  expect_refused("update", "argument 1", [&](int count, int first) {
    extended.update(
        variable, [](const auto& copy, float x) { copy.updatable_component()[0] = x; }, numbers(count, first));
  });
  expect_refused("update", "argument 1", [&](int count, int first) {
    strategy.run([&] {
      get_strategy().extended().update(
          variable, [](const auto& copy, float x) { copy.updatable_component()[0] = x; }, numbers(count, first));
    });
  });
  expect_refused("update_non_slot", "argument 1", [&](int count, int first) {
    extended.update_non_slot(extended.non_slot_devices(), [](float) {}, numbers(count, first));
  });
  EXPECT_EQ(copies(variable), (std::vector<Floats>{{1}, {1}, {1}}));
}

TEST(ValueOfOtherReplicas, is_refused_as_the_result_of_a_merge) {
  MirroredStrategy strategy = mirrored(3);
  expect_refused("merge_call", "the result", [&](int count, int first) {
    strategy.run(
        [&](ReplicaContext& replica) { (void)replica.merge_call([&](Strategy&) { return numbers(count, first); }); });
  });
}

TEST(ValueOfOtherReplicas, has_no_local_results) {
  MirroredStrategy strategy = mirrored(3);
  expect_refused("experimental_local_results", "the value",
                 [&](int count, int first) { (void)strategy.experimental_local_results(numbers(count, first)); });
  expect_refused("experimental_local_results", "the value", [&](int count, int first) {
    (void)strategy.experimental_local_results(std::tuple(numbers(count, first), 1));
  });
}

TEST(ValueOfOtherReplicas, of_another_rank_is_refused_by_every_rank_that_gets_it) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const int rank = strategy.communicator().rank();
    const int other = 1 - rank;
    const std::vector<std::string> parts{"begins with the component of replica " + std::to_string(other),
                                         "the first replica of this rank is " + std::to_string(rank)};
    expect_error(Code::invalid_argument, parts, [&] { strategy.run([](float) {}, numbers(1, other)); });
    expect_error(Code::invalid_argument, parts, [&] { (void)strategy.reduce("SUM", numbers(1, other)); });
    expect_error(Code::invalid_argument, parts, [&] { (void)strategy.gather(lists(1, other), 0); });
    expect_error(Code::invalid_argument, {"has 2 components", "1 replica;"},
                 [&] { strategy.run([](float) {}, numbers(2)); });
    EXPECT_EQ(strategy.reduce("SUM", numbers(1, rank)), 0.0F);
  });
}

TEST(ValueOfOtherReplicas, on_one_rank_reaches_the_other) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const bool wrong = strategy.communicator().rank() == 1;
    expect_error(wrong ? Code::invalid_argument : Code::unavailable, {"run: argument 1", "replica 0", "is 1"}, [&] {
      strategy.run([](ReplicaContext& replica, float x) { return replica.all_reduce("SUM", x); }, numbers(1));
    });
    expect_error(wrong ? Code::invalid_argument : Code::unavailable, {"reduce: value", "replica 0", "is 1"},
                 [&] { (void)strategy.reduce("SUM", numbers(1)); });
    EXPECT_EQ(strategy.reduce("SUM", strategy.run([] { return 1; })), 2);
  });
}

}  // namespace
}  // namespace lockstep::test
