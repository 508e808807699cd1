// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/schedule_model.hpp>

#include "support/expect_error.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace lockstep::test {
namespace {

TEST(SelectedSchedule, in_a_node_depends_on_size_and_memory) {
  on_ranks({1, 1}, [](Communicator& comm) {
    EXPECT_EQ(selected_schedule(comm, 8, BufferKind::arena), "control blocks");
    EXPECT_EQ(selected_schedule(comm, 2048, BufferKind::arena), "control blocks");
    EXPECT_EQ(selected_schedule(comm, 4096, BufferKind::arena), "slices in place");
    EXPECT_EQ(selected_schedule(comm, 1 << 30, BufferKind::arena), "slices in place");
    EXPECT_EQ(selected_schedule(comm, 16 << 10, BufferKind::other), "control blocks");
    EXPECT_EQ(selected_schedule(comm, 32 << 10, BufferKind::other), "slices through staging, 1 round");
    EXPECT_EQ(selected_schedule(comm, 2 << 20, BufferKind::other), "slices through staging, 4 rounds");
    expect_error(Code::invalid_argument, {"bytes is -1"},
                 [&] { static_cast<void>(selected_schedule(comm, -1, BufferKind::arena)); });
  });
}

TEST(SelectedSchedule, counts_all_replicas_of_a_rank) {
  on_ranks({1, 4}, [](Communicator& comm) {
    EXPECT_EQ(selected_schedule(comm, 512, BufferKind::arena), "control blocks");
    EXPECT_EQ(selected_schedule(comm, 1024, BufferKind::arena), "slices in place");
  });
}

TEST(SelectedSchedule, of_one_rank_is_nothing) {
  on_ranks({3}, [](Communicator& comm) { EXPECT_EQ(selected_schedule(comm, 1 << 20, BufferKind::arena), "alone"); });
}

TEST(SelectedSchedule, between_nodes_is_the_planners) {
  const ModelledCluster cluster{.ranks = 96, .nodes = 96};  // with the rates that the planner assumes
  for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{1} << 16, std::int64_t{1} << 27}) {
    const auto planned = simulate_all_reduce(cluster, bytes);
    const std::string start = "radices " + planned.radices + ", " + std::to_string(planned.segments) + " segment";
    EXPECT_EQ(selected_schedule(cluster, bytes, BufferKind::arena).substr(0, start.size()), start);
  }
  EXPECT_EQ(selected_schedule({.ranks = 2, .nodes = 2}, 1 << 20, BufferKind::other), "direct exchange");
  EXPECT_EQ(selected_schedule({.ranks = 8, .nodes = 1}, 1 << 20, BufferKind::arena), "slices in place");
  expect_error(Code::invalid_argument, {"nodes is 9"},
               [] { static_cast<void>(selected_schedule({.ranks = 8, .nodes = 9}, 8, BufferKind::arena)); });
}

TEST(SelectedSchedule, follows_the_radices_of_the_environment) {
  ASSERT_EQ(setenv("LOCKSTEP_RADICES", "2.2.f2", 1), 0);
  EXPECT_EQ(selected_schedule({.ranks = 8, .nodes = 8}, 8, BufferKind::arena), "radices 2.2.r2, 1 segment");
  on_ranks({1, 1, 1, 1, 1, 1, 1, 1}, [](Communicator& comm) {
    EXPECT_EQ(selected_schedule(comm, 8, BufferKind::arena), "radices 2.2.r2, 1 segment");
  });
  unsetenv("LOCKSTEP_RADICES");
}

}  // namespace
}  // namespace lockstep::test
