// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/schedule_model.hpp>

#include "support/expect_error.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

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

/// The text of `selected_schedule` for what `simulate_all_reduce` has priced.
std::string text_of(const ModelledAllReduce& priced) {
  if (priced.radices.find(' ') != std::string::npos) return priced.radices;
  return "radices " + priced.radices + ", " + std::to_string(priced.segments) +
         (priced.segments == 1 ? " segment" : " segments");
}

TEST(SelectedSchedule, is_what_the_simulation_prices) {
  using Cluster = std::pair<int, int>;  // ranks and nodes
  for (const auto& [ranks, nodes] :
       some_of<Cluster>({{4, 2}, {16, 4}, {64, 64}, {100, 100}, {512, 64}, {1024, 128}, {8, 1}})) {
    for (const std::int64_t bytes : {8, 4 << 10, 64 << 10, 1 << 20, 16 << 20}) {
      ModelledCluster cluster{.ranks = ranks, .nodes = nodes};
      const std::string selected = selected_schedule(cluster, bytes, BufferKind::arena);
      EXPECT_EQ(text_of(simulate_all_reduce(cluster, bytes)), selected) << ranks << ' ' << nodes << ' ' << bytes;
      // the rates change the time only
      cluster.latency_us = 20;
      cluster.gbit = 10;
      EXPECT_EQ(text_of(simulate_all_reduce(cluster, bytes)), selected) << ranks << ' ' << nodes << ' ' << bytes;
    }
  }
}

TEST(SelectedSchedule, of_small_data_between_nodes_is_the_agreement) {
  EXPECT_EQ(selected_schedule({.ranks = 16, .nodes = 4}, 8, BufferKind::other), "with the agreement");
  const ModelledAllReduce small = simulate_all_reduce({.ranks = 16, .nodes = 4}, 8);
  EXPECT_EQ(small.time_us, small.agreement_us);
  EXPECT_EQ(small.messages, 3);
  EXPECT_EQ(small.bytes, 3 * (40 + 64));
}

TEST(Simulation, adds_the_agreement_to_the_schedule) {
  const ModelledCluster cluster{.ranks = 16, .nodes = 4};
  const ModelledAllReduce chosen = simulate_all_reduce(cluster, 1 << 20);
  const ModelledAllReduce given = simulate_all_reduce(cluster, 1 << 20, chosen.radices, chosen.segments);
  EXPECT_EQ(chosen.time_us, given.time_us);
  EXPECT_EQ(chosen.messages, given.messages);
  EXPECT_EQ(chosen.radices.substr(0, 2), "n.");
  EXPECT_GT(chosen.agreement_us, 2);
  EXPECT_LT(chosen.agreement_us, 3);
  // given radices are what is run, whatever the size
  const ModelledAllReduce small = simulate_all_reduce(cluster, 8, "n.r0");
  EXPECT_EQ(small.radices, "n.r4");
  EXPECT_EQ(small.agreement_us, chosen.agreement_us);
  EXPECT_GT(small.time_us, small.agreement_us + 1);
  EXPECT_EQ(simulate_all_reduce({.ranks = 1, .nodes = 1}, 8).time_us, 0);
}

TEST(SelectedSchedule, of_two_ranks_or_one_node_has_no_stages) {
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
