// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Which replica of lockstep-perf is on which GPU, and what a call moves there at least.

#include "bench/gpus.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace perf {
namespace {

std::vector<std::string> names(int gpus, int rank_of_node, int ranks_of_node, int replicas) {
  std::vector<std::string> all;
  for (const lockstep::Device device : gpus_of_replicas(gpus, rank_of_node, ranks_of_node, replicas)) {
    all.push_back(lockstep::to_string(device));
  }
  return all;
}

using Names = std::vector<std::string>;

TEST(GpusOfReplicas, are_all_of_the_one_that_there_is) {
  EXPECT_EQ(names(1, 0, 1, 3), (Names{"gpu:0", "gpu:0#1", "gpu:0#2"}));
  EXPECT_EQ(names(1, 1, 2, 1), (Names{"gpu:0"}));
}

TEST(GpusOfReplicas, of_one_rank_are_spread_over_all_with_neighbours_together) {
  EXPECT_EQ(names(2, 0, 1, 4), (Names{"gpu:0", "gpu:0#1", "gpu:1", "gpu:1#1"}));
  EXPECT_EQ(names(4, 0, 1, 2), (Names{"gpu:0", "gpu:1"}));
}

TEST(GpusOfReplicas, go_by_turns_to_the_ranks_of_a_node) {
  EXPECT_EQ(names(2, 1, 2, 1), (Names{"gpu:1"}));
  EXPECT_EQ(names(4, 1, 2, 2), (Names{"gpu:1", "gpu:3"}));
  EXPECT_EQ(names(2, 3, 4, 2), (Names{"gpu:1", "gpu:1#1"}));
}

std::int64_t least(Collective collective, int replicas, Placement placement) {
  Case what{.collective = collective, .count = 24};
  what.placement = placement;
  return least_bytes(what, Job{.replicas_per_rank = replicas});
}

TEST(LeastBytes, are_each_input_once_and_each_output_once) {
  constexpr std::int64_t whole = 24 * 4;
  const auto out = Placement::out_of_place;
  EXPECT_EQ(least(Collective::all_reduce, 4, out), 8 * whole);
  EXPECT_EQ(least(Collective::all_reduce, 4, Placement::in_place), 8 * whole);
  EXPECT_EQ(least(Collective::reduce_scatter, 4, out), 5 * whole);
  EXPECT_EQ(least(Collective::all_gather, 4, out), 5 * whole);
  EXPECT_EQ(least(Collective::broadcast, 4, out), 5 * whole);
  EXPECT_EQ(least(Collective::all_to_all, 4, out), 8 * whole);
  EXPECT_EQ(least(Collective::all_reduce, 1, out), 2 * whole);
}

TEST(LeastBytes, leave_out_what_is_where_it_belongs) {
  EXPECT_EQ(least(Collective::broadcast, 4, Placement::in_place), 4 * 24 * 4);
  EXPECT_EQ(least(Collective::all_reduce, 1, Placement::in_place), 0);
  EXPECT_EQ(least(Collective::barrier, 4, Placement::out_of_place), 0);
}

}  // namespace
}  // namespace perf
