// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "schedule/planner.hpp"
#include "schedule/agreement_pattern.hpp"

#include "support/processor_time.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::detail {
namespace {

ScheduleChoice cost_of(const RankLayout& layout, const std::string& pattern, std::int64_t bytes, int segments = 0) {
  return priced(layout, {}, RadixPattern(pattern).stages(layout.ranks(), layout.nodes()), bytes, segments);
}

TEST(CostModel, agrees_with_small_cases_computed_by_hand) {
  const CostParameters p;
  ASSERT_EQ(p.overhead_us, 0.25);
  // one message each way: latency, overheads of sender and receiver, 8 bytes at 12.5 GB/s; 24 bytes added at 40 GB/s
  EXPECT_NEAR(cost_of(even_rank_layout(2, 2), "r2", 8).time_us, 1 + 0.25 + 8 / 12.5e3 + 0.25 + 24 / 40e3, 1e-9);
  // half of the vector in each direction and phase; large messages are received without CPU time
  const double half = 1 << 20;
  EXPECT_NEAR(cost_of(even_rank_layout(2, 2), "2", 2 << 20, 1).time_us,
              2 * (1 + 0.25 + half / 12.5e3) + 3 * half / 40e3, 1e-9);
  // two nodes of two ranks: halves inside, then quarters, which share the port
  const double inside = 0.2 + 0.25 + 2048 / 20e3 + 0.25;
  const double outside = 1 + 0.25 + 2048 / 12.5e3 + 0.25;
  const ScheduleChoice plan = cost_of(even_rank_layout(4, 2), "n.2", 4096);
  EXPECT_NEAR(plan.time_us, 2 * inside + 3 * 2048 / 40e3 + 2 * outside + 3 * 1024 / 40e3, 1e-9);
  EXPECT_EQ(plan.load.messages, 4);
  EXPECT_EQ(plan.load.bytes, 2 * (2048 + 1024));
  EXPECT_EQ(cost_of(even_rank_layout(1, 1), "0", 4096).time_us, 0);
}

TEST(CostModel, prices_segments_by_the_busier_of_port_and_processor) {
  const RankLayout layout = even_rank_layout(2, 2);
  const double half = 8 << 20;
  const double port = 2 * half / 12.5e3;
  const double processor = 4 * 0.25 + 3 * half / 16 / 40e3;
  const double one = 2 * (1 + 0.25 + half / 16 / 12.5e3) + 3 * half / 16 / 40e3;
  ASSERT_GT(port / 16, processor);
  EXPECT_NEAR(cost_of(layout, "2", 16 << 20, 16).time_us, one + 15 * port / 16, 1e-9);
}

TEST(CostModel, finds_the_busiest_rank_without_walking_all) {
  for (const int ranks : test::some_of<int>({129, 200, 255, 257, 300, 511, 513})) {
    for (const int nodes : {ranks, ranks / 3, ranks / 8}) {
      const RankLayout layout = even_rank_layout(ranks, nodes);
      for (const char* const pattern : {"4.4.4.0", "2.2.2.2.2.2.2.2.0", "n.4.0", "4.f4", "n.4.r0", "8.8.r3.r0"}) {
        const MixedRadix schedule(layout, RadixPattern(pattern).stages(ranks, nodes));
        const double all = schedule_us({}, schedule_load(schedule, 65536, WalkedRanks::all).stages, 1);
        const double few = schedule_us({}, schedule_load(schedule, 65536).stages, 1);
        EXPECT_LE(few, all);
        EXPECT_GE(few, 0.9 * all) << pattern << " on " << ranks << " ranks, " << nodes << " nodes";
      }
    }
  }
}

TEST(CostModel, grows_with_bytes_latency_and_ranks) {
  for (const char* const pattern : {"0", "2.2.2.2.2.2", "4.f4", "r0"}) {
    double before = 0;
    for (std::int64_t bytes = 8; bytes <= 64 << 20; bytes *= 8) {
      const double us = cost_of(even_rank_layout(48, 48), pattern, bytes, 1).time_us;
      EXPECT_GE(us, before) << pattern << ' ' << bytes;
      before = us;
    }
  }
  const RankLayout layout = even_rank_layout(64, 64);
  const Radices radices = RadixPattern("4.4.4").stages(64, 64);
  CostParameters far;
  far.latency_us = 5;
  EXPECT_NEAR(priced(layout, far, radices, 4096).time_us - priced(layout, {}, radices, 4096).time_us, 6 * 4, 1e-9);
  EXPECT_GT(cost_of(even_rank_layout(128, 128), "4.4.0", 4096).time_us, cost_of(layout, "4.4.0", 4096).time_us);
}

/// Every rank is a node.
AgreementCost agreement_of(int nodes, std::int64_t data_bytes = 0) {
  return agreement_cost(even_rank_layout(nodes, nodes), {}, data_bytes);
}

TEST(AgreementCost, agrees_with_small_cases_computed_by_hand) {
  const double header = 40 / 12.5e3;
  // one header each way: latency, overheads of sender and receiver
  const double of_two = 1 + 0.25 + header + 0.25;
  EXPECT_NEAR(agreement_of(2).time_us, of_two, 1e-9);
  EXPECT_EQ(agreement_of(2).messages, 1);
  EXPECT_EQ(agreement_of(2).bytes, 40);
  // three sends, of which the last is on the way while the others are received
  const double of_four = 1 + 3 * 0.25 + header + 0.25;
  EXPECT_NEAR(agreement_of(4).time_us, of_four, 1e-9);
  // five groups in one round
  EXPECT_NEAR(agreement_of(5).time_us, 1 + 4 * 0.25 + header + 0.25, 1e-9);
  EXPECT_EQ(agreement_of(5).messages, 4);
  // 4 * 4 * 4 * 2
  EXPECT_NEAR(agreement_of(128).time_us, 3 * of_four + of_two, 1e-9);
  EXPECT_EQ(agreement_of(128).messages, 10);
  EXPECT_EQ(agreement_of(128).bytes, 400);
  // inside the nodes: to the leader and back
  EXPECT_NEAR(agreement_cost(even_rank_layout(1024, 128), {}).time_us, 3 * of_four + of_two + 2 * 0.2, 1e-9);
  EXPECT_NEAR(agreement_cost(even_rank_layout(3, 2), {}).time_us, of_two + 2 * 0.2, 1e-9);
  EXPECT_NEAR(agreement_cost(even_rank_layout(8, 1), {}).time_us, 0.2, 1e-9);
  EXPECT_EQ(agreement_of(1), AgreementCost{});
}

TEST(AgreementCost, counts_the_data_that_travels_with_the_headers) {
  const double data = 4096;
  const double message = (40 + data) / 12.5e3;
  const double of_two = 1 + 0.25 + message + 0.25 + 3 * data / 40e3;
  EXPECT_NEAR(agreement_of(2, 4096).time_us, of_two, 1e-9);
  EXPECT_EQ(agreement_of(2, 4096).bytes, 40 + 4096);
  // the port limits the round: all three messages end together, after two overheads
  const double of_four = 1 + 0.25 + 3 * message + 2 * 0.25 + 5 * data / 40e3;
  EXPECT_NEAR(agreement_of(4, 4096).time_us, of_four, 1e-9);
  EXPECT_NEAR(agreement_of(8, 4096).time_us, of_four + of_two, 1e-9);
  // the leader reads the vector of the other rank, adds both, and the result is read once
  EXPECT_NEAR(agreement_cost(even_rank_layout(4, 2), {}, 4096).time_us,
              of_two + 2 * 0.2 + 2 * data / 20e3 + 3 * data / 40e3, 1e-9);
  // three ranks of a node hold two blocks of the tree: both are sent
  EXPECT_EQ(agreement_cost(even_rank_layout(6, 2), {}, 4096).bytes, 40 + 2 * 4096);
}

TEST(AgreementCost, counts_the_messages_of_the_busiest_leader_of_all) {
  for (int nodes = 2; nodes <= 300; ++nodes) {
    std::size_t most = 0;
    std::vector<StageLoad> loads;
    const AgreementPattern pattern(nodes);
    for (int node = 0; node < nodes; ++node) {
      std::size_t messages = 0;
      const auto rounds = pattern.rounds(node);
      loads.resize(rounds.size());
      for (std::size_t round = 0; round < rounds.size(); ++round) {
        StageLoad& load = loads[round];
        messages += rounds[round].targets.size();
        load.leaves_node = true;
        load.largest_bytes = 40;
        load.sends = std::max(load.sends, static_cast<double>(rounds[round].targets.size()));
        load.receives = std::max(load.receives, static_cast<double>(rounds[round].sources.size()) - 1);
        load.port_bytes = 40 * std::max(load.sends, load.receives);
      }
      most = std::max(most, messages);
    }
    EXPECT_EQ(agreement_of(nodes).messages, static_cast<std::int64_t>(most)) << nodes;
    EXPECT_NEAR(agreement_of(nodes).time_us, schedule_us({}, loads, 1), 1e-9) << nodes;
  }
}

TEST(CostModel, prices_the_shared_memory_of_one_node) {
  // the inputs of three other ranks, and four inputs and a result in memory
  EXPECT_NEAR(node_reduce_us({}, 4, 2048, NodeReads::inputs), 0.2 + 3 * 2048 / 20e3 + 5 * 2048 / 40e3, 1e-9);
  // a quarter of them, and the result to three other ranks
  const double slice = 1 << 18;
  EXPECT_NEAR(node_reduce_us({}, 4, 1 << 20, NodeReads::slices), 0.4 + 6 * slice / 20e3 + 5 * slice / 40e3, 1e-9);
  // no slice is smaller than a page
  EXPECT_EQ(node_reduce_us({}, 4, 4096, NodeReads::slices), node_reduce_us({}, 4, 16384, NodeReads::slices));
}

TEST(Planner, is_never_slower_than_halving_doubling_or_direct_exchange) {
  for (const int ranks : test::is_quick() ? std::vector<int>{1, 3, 8, 31, 64, 101}
                                          : std::vector<int>{1, 2, 3, 4, 6, 7, 8, 12, 24, 31, 33, 48, 64, 96, 100, 101,
                                                             256, 1000, 1024}) {
    for (const int nodes : {ranks, (ranks + 7) / 8, 1}) {
      const RankLayout layout = even_rank_layout(ranks, nodes);
      std::string halving = nodes < ranks ? "n." : "";
      for (int size = 1; size < nodes; size *= 2) halving += "2.";
      for (std::int64_t bytes = 8; bytes <= 128 << 20; bytes *= test::is_quick() ? 1024 : 32) {
        const double us = plan_all_reduce(layout, {}, bytes).time_us;
        for (const std::string& pattern : {halving + "0", std::string("0"), std::string("r0"), std::string("f2")})
          EXPECT_LE(us, cost_of(layout, pattern, bytes).time_us * (1 + 1e-9))
              << pattern << ' ' << ranks << ' ' << nodes << ' ' << bytes;
      }
    }
  }
}

TEST(Planner, beats_halving_doubling_by_the_latency_that_larger_radices_save) {
  const RankLayout layout = even_rank_layout(1024, 1024);
  const std::string halving = "2.2.2.2.2.2.2.2.2.2";
  EXPECT_LT(plan_all_reduce(layout, {}, 8).time_us, 0.7 * cost_of(layout, "f2", 8).time_us);
  EXPECT_LT(plan_all_reduce(layout, {}, 32768).time_us, 0.6 * cost_of(layout, halving, 32768).time_us);
  EXPECT_LT(plan_all_reduce(layout, {}, 16 << 20).time_us, 0.75 * cost_of(layout, halving, 16 << 20, 1).time_us);
}

TEST(Planner, is_fast_for_a_hundred_thousand_ranks) {
  if (test::is_quick()) GTEST_SKIP() << "with sanitizers it is not";
  const auto start = test::processor_time_of_thread();
  for (const int nodes : {100'000, 12'500}) {
    const RankLayout layout = even_rank_layout(100'000, nodes);
    for (std::int64_t bytes = 8; bytes <= 128 << 20; bytes *= 64) {
      const ScheduleChoice plan = plan_all_reduce(layout, {}, bytes);
      EXPECT_GT(plan.time_us, 10);
      EXPECT_LT(plan.load.messages, 1000);
    }
  }
  EXPECT_LT(test::processor_time_of_thread() - start, std::chrono::seconds(10));
}

TEST(Planner, gives_one_plan_for_the_same_arguments) {
  const RankLayout layout = even_rank_layout(100, 13);
  const ScheduleChoice once = plan_all_reduce(layout, {}, 100'000);
  const ScheduleChoice twice = plan_all_reduce(layout, {}, 100'000);
  EXPECT_EQ(once.radices, twice.radices);
  EXPECT_EQ(once.segments, twice.segments);
}

}  // namespace
}  // namespace lockstep::detail
