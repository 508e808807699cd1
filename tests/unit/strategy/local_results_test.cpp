// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// experimental_local_results of variables, and of trees that contain them.

#include "unit/strategy/strategies.hpp"

#include <map>
#include <tuple>
#include <utility>

namespace lockstep::test {
namespace {

float number_of(const Tensor& tensor) { return tensor.elements<float>().front(); }

/// A variable whose copies are 1, 2, ...
SyncOnReadVariable<float> counted(Strategy& strategy) {
  const auto variable = strategy.sync_on_read_variable<float>(0.0F, aggregated_by(VariableAggregation::sum));
  strategy.run([&](ReplicaContext& replica) { variable.assign(replica.replica_id_in_sync_group() + 1); });
  return variable;
}

TEST(LocalResults, of_a_tree_have_the_component_of_a_variable_in_the_tree_of_each_replica) {
  MirroredStrategy strategy = mirrored(2);
  const auto variable = counted(strategy);
  const auto alone = strategy.experimental_local_results(std::tuple(variable));
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_EQ(number_of(std::get<0>(alone[0])), 1.0F);
  EXPECT_EQ(number_of(std::get<0>(alone[1])), 2.0F);

  const auto pairs = strategy.experimental_local_results(std::pair(variable, PerReplica<int>({10, 20})));
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(number_of(pairs[1].first), 2.0F);
  EXPECT_EQ(pairs[1].second, 20);

  using Named = std::map<std::string, std::vector<SyncOnReadVariable<float>>>;
  const auto nested = strategy.experimental_local_results(std::tuple(Named{{"k", {variable, variable}}}, 7));
  ASSERT_EQ(nested.size(), 2U);
  EXPECT_EQ(number_of(std::get<0>(nested[1]).at("k")[1]), 2.0F);
  EXPECT_EQ(std::get<1>(nested[1]), 7);
}

TEST(LocalResults, of_a_tree_on_each_rank_are_those_of_its_replicas) {
  on_workers({1, 2}, [](Strategy& strategy) {
    const int rank = strategy.communicator().rank();
    const auto parts = strategy.experimental_local_results(std::tuple(counted(strategy)));
    ASSERT_EQ(parts.size(), rank == 0 ? 1U : 2U);
    EXPECT_EQ(number_of(std::get<0>(parts[0])), static_cast<float>(rank + 1));
  });
}

TEST(LocalResults, of_a_plain_variable_in_a_tree_are_its_one_copy_for_every_replica) {
  const auto plain = make_variable<float>(5.0F);
  MirroredStrategy strategy = mirrored(2);
  const auto parts = strategy.experimental_local_results(std::tuple(plain, PerReplica<int>({1, 2})));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(number_of(std::get<0>(parts[1])), 5.0F);
  EXPECT_EQ(strategy.experimental_local_results(std::tuple(plain, 1)).size(), 1U);
}

TEST(LocalResults, of_a_mirrored_value_are_its_copies_on_however_many_devices) {
  MirroredStrategy strategy = mirrored(3);
  EXPECT_EQ(strategy.experimental_local_results(Mirrored<int>({5, 5})), (std::vector<int>{5, 5}));
  EXPECT_EQ(strategy.experimental_local_results(3), std::vector<int>{3});
}

}  // namespace
}  // namespace lockstep::test
