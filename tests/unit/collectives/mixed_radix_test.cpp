// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce by mixed-radix schedules: ranks are threads, on simulated nodes, and radices are forced.

#include "collectives/host/operations.hpp"
#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/late_ranks.hpp"
#include "support/op_cases.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"
#include "support/silent_transport.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <string>

namespace lockstep::test {
namespace {

const std::vector<std::string> patterns{"0",    "r0",     "2.2.2.0", "f2",     "2.f2",  "4.0",    "4.f2",
                                        "2.r0", "3.0",    "r3.r2",   "3.2.r2", "n.0",   "n.f2",   "n.r0",
                                        "n",    "n.2.f3", "f3",      "5.0",    "2.3.0", "2.2.r3", "r2.r2.r2"};

/// The leader of each rank's node, for nodes of `per_node` ranks; the last node has the rest.
std::vector<int> leaders(std::size_t ranks, std::size_t per_node) {
  std::vector<int> result;
  for (std::size_t rank = 0; rank < ranks; ++rank) result.push_back(static_cast<int>(rank / per_node * per_node));
  return result;
}

std::vector<Communicator> communicators(const std::vector<int>& counts, std::size_t per_node,
                                        const detail::ScheduleOptions& schedules, const CommunicatorOptions& base = {},
                                        detail::NodePath path = detail::NodePath::messages) {
  std::vector<Communicator> result;
  auto transports =
      detail::make_loopback_transports(leaders(counts.size(), per_node), path == detail::NodePath::memory);
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    CommunicatorOptions options = base;
    options.local_replicas = counts[rank];
    result.push_back(CommunicatorAccess::make(std::move(transports[rank]), options, ReplicaLayout(counts), schedules));
  }
  return result;
}

void on(std::vector<Communicator> ranks, FunctionRef<void(Communicator&)> body) {
  std::vector<std::jthread> threads;
  for (Communicator& comm : ranks) threads.emplace_back([&body, &comm] { body(comm); });
}

using detail::NodePath;

/// Sizes on both sides of every grain.
std::vector<OpCase> cases_of(const std::vector<int>& counts) {
  return every_op(std::accumulate(counts.begin(), counts.end(), 0), {{DType::f32, 700}, {DType::f16, 0}});
}

Results results_with(int segments) {
  return {segments == 1 ? Results::Place::on_some_ranks : Results::Place::in_place, 2};
}

class MixedRadixAllReduce : public testing::TestWithParam<std::vector<int>> {};

TEST_P(MixedRadixAllReduce, has_the_bits_of_the_tree_with_any_radices_and_segments) {
  const std::vector<int>& counts = GetParam();
  const auto ops = cases_of(counts);
  int count = 0;
  for (const std::string& pattern : some_of(patterns)) {
    for (const int segments : {1, 3}) {
      std::atomic<int> wrong{0};
      const std::size_t per_node = 1 + static_cast<std::size_t>(count++) % 4;
      on(communicators(counts, per_node, {pattern, segments}), [&](Communicator& comm) {
        for (const OpCase& op : ops) wrong += wrong_results(comm, op, results_with(segments));
      });
      EXPECT_EQ(wrong.load(), 0) << pattern << " in " << segments << " segments, " << per_node << " ranks per node";
    }
  }
}

TEST_P(MixedRadixAllReduce, has_them_if_the_ranks_of_a_node_share_memory) {
  const std::vector<int>& counts = GetParam();
  const auto ops = cases_of(counts);
  int count = 0;
  for (const std::string& pattern : some_of<std::string>({"n.0", "n.r0", "n.2.f2", "n.f3", "2.0", ""})) {
    for (const int segments : {1, 3}) {
      std::atomic<int> wrong{0};
      const std::size_t per_node = 1 + static_cast<std::size_t>(count++) % 4;
      on(communicators(counts, per_node, {pattern, segments}, {}, NodePath::memory), [&](Communicator& comm) {
        for (const OpCase& op : ops) wrong += wrong_results(comm, op, results_with(segments));
      });
      EXPECT_EQ(wrong.load(), 0) << pattern << " in " << segments << " segments, " << per_node << " ranks per node";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, MixedRadixAllReduce,
                         testing::ValuesIn(some_of<std::vector<int>>(
                             {std::vector{1}, std::vector{1, 1}, std::vector{3, 2}, std::vector{1, 1, 1},
                              std::vector{2, 1, 4}, std::vector{1, 1, 1, 1}, std::vector{5, 1, 1, 2},
                              std::vector{1, 1, 1, 1, 1}, std::vector{1, 3, 1, 6, 2}, std::vector{1, 1, 1, 1, 1, 1},
                              std::vector{2, 2, 2, 2, 2, 3}, std::vector{1, 1, 1, 1, 1, 1, 1},
                              std::vector{3, 1, 2, 2, 1, 4, 3}, std::vector{1, 1, 1, 1, 1, 1, 1, 1},
                              std::vector{2, 2, 2, 2, 2, 2, 2, 2}, std::vector{3, 1, 1, 4, 2, 1, 3, 1}})));

TEST(MixedRadix, reduces_large_lists_in_many_segments) {
  for (const NodePath path : {NodePath::messages, NodePath::memory}) {
    for (const char* const pattern : {"4.0", "n.2.r2", "f2"}) {
      on(communicators({1, 2, 1, 1, 1}, 2, {pattern, 7}, {}, path), [](Communicator& comm) {
        check_all_reduce(comm, ReduceOp::sum);
        check_in_place(comm);
      });
    }
  }
}

TEST(MixedRadix, is_the_default_of_communicators_of_several_nodes) {
  for (const NodePath path : {NodePath::messages, NodePath::memory}) {
    on(communicators({1, 1, 2, 1, 1, 1, 1, 1}, 3, {}, {}, path), [](Communicator& comm) {
      EXPECT_EQ(comm.nodes(), 3);
      check_every_collective(comm);
    });
  }
  on(communicators({1, 1, 1, 1, 1, 1, 1}, 1, {}), [](Communicator& comm) { check_every_collective(comm); });
}

TEST(MixedRadix, leaves_the_other_collectives_alone) {
  on(communicators({1, 2, 1, 1}, 2, {"2.r2", 2}), [](Communicator& comm) { check_every_collective(comm); });
}

TEST(MixedRadix, is_chosen_between_nodes_by_the_cost_model) {
  const ReplicaLayout layout(std::vector<int>(16, 1));
  detail::ScheduleCache spread(layout, leaders(16, 1), 0, {});
  ASSERT_NE(spread.find(8), nullptr);
  EXPECT_EQ(spread.find(5), spread.find(8)) << "plans are kept by size class";
  EXPECT_GT(spread.find(64 << 20)->segments(), 1);
  for (const std::int64_t bytes : {8, 8192, 8 << 20}) {
    detail::ScheduleCache shared(layout, leaders(16, 4), 0, {}, NodePath::memory);
    EXPECT_TRUE(shared.find(bytes)->begins_in_node());
    detail::ScheduleCache pair(layout, leaders(16, 8), 0, {}, NodePath::memory);
    EXPECT_EQ(detail::to_string(pair.find(bytes)->radices()), "n.r2");
  }
  detail::ScheduleCache near(layout, leaders(16, 16), 0, {});
  EXPECT_EQ(near.find(8), nullptr);
  detail::ScheduleCache forced(layout, leaders(16, 16), 0, {"2.f4", 0});
  EXPECT_EQ(detail::to_string(forced.find(8)->radices()), "2.r4.r2");
}

TEST(MixedRadix, treats_every_rank_as_a_node_if_nodes_are_not_contiguous) {
  const std::vector<int> round_robin{0, 1, 0, 1};
  detail::ScheduleCache cache(ReplicaLayout({1, 1, 1, 1}), round_robin, 0, {"n.0", 0});
  EXPECT_EQ(detail::to_string(cache.find(1 << 20)->radices()), "4");
}

TEST(MixedRadix, is_agreed_on_like_everything_else) {
  auto transports = detail::make_loopback_transports(leaders(3, 1));
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&transports, rank] {
      Communicator comm = CommunicatorAccess::make(std::move(transports[rank]), minutes_to_fail(),
                                                   ReplicaLayout({1, 1, 1}), {rank == 2 ? "r0" : "0", 0});
      std::vector<float> value{1};
      const std::string error = error_of([&] { comm.all_reduce(std::span(value), ReduceOp::sum); });
      EXPECT_NE(error.find("rank 2 calls all_reduce sum of f32 [1] with LOCKSTEP_RADICES=r0"), std::string::npos)
          << error;
      comm.barrier(long_deadline());
    });
  }
}

class MixedRadixFailures : public testing::TestWithParam<NodePath> {};

TEST_P(MixedRadixFailures, name_the_rank_and_the_others_work_afterwards) {
  on(communicators({1, 1, 1, 1, 1}, 2, {"n.r2.r2", 3}, minutes_to_fail(), GetParam()), [](Communicator& comm) {
    check_all_reduce(comm, ReduceOp::sum);
    const std::string error = error_of([&] {
      if (comm.rank() == 3) {
        comm.abort("lost its data");
        return;
      }
      check_all_reduce(comm, ReduceOp::max);
    });
    const bool is_told = error.find("rank 3 failed") != std::string::npos;
    EXPECT_TRUE(comm.rank() == 3 || is_told) << error;
    comm.barrier();
    check_all_reduce(comm, ReduceOp::sum);
  });
  LateRanks late(4, {2});
  const std::size_t per_node = GetParam() == NodePath::memory ? 2 : 1;
  on(communicators({1, 1, 1, 1}, per_node, {"n.2", 2}, short_deadline(1000), GetParam()), [&](Communicator& comm) {
    const std::string error = error_of([&] { late.call(comm, [&] { check_all_reduce(comm, ReduceOp::sum); }); });
    EXPECT_NE(error, "none");
    if (virtual_time::is_active() && comm.rank() != 2) expect_all(error, {"waiting for rank 2"});
    while (error_of([&] { comm.barrier(long_deadline()); }) != "none") {}
    check_all_reduce(comm, ReduceOp::sum, long_deadline());
  });
}

INSTANTIATE_TEST_SUITE_P(InsideANode, MixedRadixFailures, testing::Values(NodePath::messages, NodePath::memory),
                         [](const auto& path) { return path.param == NodePath::memory ? "memory" : "messages"; });

TEST(MixedRadix, finds_mismatches_across_nodes_that_share_memory) {
  on(communicators({1, 1, 1, 1, 1}, 2, {}, minutes_to_fail(), NodePath::memory), [](Communicator& comm) {
    for (const int odd : {0, 1, 3, 4}) {
      std::vector<float> values(comm.rank() == odd ? 4 : 3, 1.0f);
      const std::string error = error_of([&] { comm.all_reduce(std::span(values), ReduceOp::sum); });
      const std::string other = odd == 0 ? "rank 1 calls all_reduce sum of f32 [3]" : "of f32 [4]";
      EXPECT_NE(error.find(other), std::string::npos) << error;
      EXPECT_NE(error.find("rank " + std::to_string(odd) + " calls"), std::string::npos) << error;
      check_all_reduce(comm, ReduceOp::sum);
    }
  });
}

TEST(MixedRadix, names_the_awaited_ranks_and_leaves_memory_that_they_may_write_to_the_transport) {
  SilentTransport transport(leaders(8, 8));
  detail::Workspace workspace;
  detail::ScheduleCache cache(ReplicaLayout(std::vector<int>(8, 1)), transport.node_leaders(), 0, {"4.0", 1});
  std::vector<float> values(4096, 1.0f);
  detail::HostItem item{DType::f32, Shape{4096}, {values.data()}, {values.data()}};
  const auto descriptor =
      detail::make_descriptor(detail::Call::all_reduce(ReduceOp::sum), Order::canonical, std::span(&item, 1), "");
  const auto operation = detail::make_mixed_radix_exchange(descriptor, cache.find(16384), 0, {item});
  operation->start(transport, workspace);
  EXPECT_FALSE(operation->advance(transport, workspace));
  EXPECT_EQ(operation->awaited_ranks(), (std::vector{1, 2, 3}));
  EXPECT_FALSE(operation->abandon(transport));
  EXPECT_EQ(transport.abandoned, 3U);
  EXPECT_GE(transport.abandoned_bytes, 3U * 4096 + 16384);
  EXPECT_EQ(values, std::vector<float>(4096, 1.0f));
}

}  // namespace
}  // namespace lockstep::test
