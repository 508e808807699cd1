// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The least traffic of a call of lockstep-perf through the memory of one GPU.

#include "bench/perf/gpus.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace perf {
namespace {

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

TEST(LeastBytes, exclude_data_that_is_in_place) {
  EXPECT_EQ(least(Collective::broadcast, 4, Placement::in_place), 4 * 24 * 4);
  EXPECT_EQ(least(Collective::all_reduce, 1, Placement::in_place), 0);
  EXPECT_EQ(least(Collective::barrier, 4, Placement::out_of_place), 0);
}

}  // namespace
}  // namespace perf
