// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives on nodes with many ranks, which are threads: their places come from synthetic topologies.

#include <lockstep/collectives/schedule_model.hpp>

#include "base/processor.hpp"
#include "cluster/topology.hpp"
#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/late_ranks.hpp"
#include "support/op_cases.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>

namespace lockstep::test {
namespace {

using detail::NodePlace;

/// A node, and the core of each rank.
struct Node {
  friend void PrintTo(const Node& node, std::ostream* out) { *out << node.name; }

  std::string name;
  std::string topology;    // in hwloc's syntax
  std::vector<int> cores;  // by rank
  std::vector<int> replicas;

  [[nodiscard]] std::vector<NodePlace> places() const {
    const detail::Topology all(topology);
    std::vector<NodePlace> places;
    for (const int core : cores) places.push_back(place_of(all, all.cores()[static_cast<std::size_t>(core)]));
    return places;
  }
};

std::vector<int> first(int count) {
  std::vector<int> cores(static_cast<std::size_t>(count));
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}
std::vector<int> ones(std::size_t ranks) { return std::vector<int>(ranks, 1); }

/// Cores of each socket in turns.
std::vector<int> round_robin(int cores, int sockets) {
  std::vector<int> result;
  for (int core = 0; core < cores; ++core) result.push_back(core % sockets * (cores / sockets) + core / sockets);
  return result;
}

/// Without every fourth core of a domain of 8, and without one domain.
std::vector<int> with_holes(int cores) {
  std::vector<int> result;
  for (int core = 0; core < cores; ++core) {
    if (core % 4 != 3 && core / 8 != 2) result.push_back(core);
  }
  return result;
}

std::vector<int> uneven_replicas(std::size_t ranks) {
  std::vector<int> counts;
  for (std::size_t rank = 0; rank < ranks; ++rank) counts.push_back(1 + static_cast<int>(rank * 7 % 5 == 1));
  return counts;
}

/// Nodes of at most 32 ranks in lanes in which threads are slow.
std::vector<Node> nodes() {
  const std::vector<int> holes = with_holes(96);
  std::vector<Node> all{
      {"two_sockets_of_8_domains", "pack:2 l3:8 core:8 pu:1", first(128), ones(128)},
      {"two_sockets_of_12_domains", "pack:2 l3:12 core:8 pu:1", first(192), ones(192)},
      {"two_sockets_of_one_cache", "pack:2 l3:1 core:56 pu:1", first(112), ones(112)},
      {"with_smt", "pack:1 l3:8 core:8 pu:2", first(64), uneven_replicas(64)},
      {"one_cache", "pack:1 l3:1 core:72 pu:1", first(72), uneven_replicas(72)},
      {"with_holes", "pack:2 l3:6 core:8 pu:1", holes, ones(holes.size())},
      {"in_another_order", "pack:2 l3:8 core:4 pu:1", round_robin(64, 2), ones(64)},
      {"few_ranks_of_each_domain", "pack:2 l3:8 core:2 pu:1", first(32), uneven_replicas(32)},
  };
  if (is_quick()) std::erase_if(all, [](const Node& node) { return node.cores.size() > 32; });
  return all;
}

/// Sizes that travel with the agreement, and sizes on both sides of a line and of a stage's share.
std::vector<OpCase> cases(int replicas) {
  std::vector<OpCase> all;
  const std::vector<TensorCase> medium{{DType::f32, 1}, {DType::bf16, 33}, {DType::f64, 700},  {DType::i8, 77},
                                       {DType::f32, 0}, {DType::f16, 999}, {DType::f32, 3001}, {DType::i32, 64}};
  for (const ReduceOp op : some_of<ReduceOp>({ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::bxor})) {
    all.push_back(op_case(op, medium, replicas));
    all.push_back(op_case(op, {{op == ReduceOp::bxor ? DType::i32 : DType::f64, 1}}, replicas));
    all.push_back(op_case(op, {{DType::i32, 9}, {DType::f16, 20}, {DType::f32, 11}}, replicas));
  }
  all.push_back(op_case(ReduceOp::sum, {{DType::f32, 20'001}, {DType::bf16, 5003}}, replicas));
  return all;
}

void on_node(const Node& node, const CommunicatorOptions& base, FunctionRef<void(Communicator&)> body) {
  auto transports = detail::make_loopback_transports(static_cast<int>(node.cores.size()), true, node.places());
  std::vector<Communicator> communicators;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    CommunicatorOptions options = base;
    options.local_replicas = node.replicas[rank];
    communicators.push_back(
        CommunicatorAccess::make(std::move(transports[rank]), options, ReplicaLayout(node.replicas)));
  }
  std::vector<std::jthread> threads;
  for (Communicator& comm : communicators) threads.emplace_back([&body, &comm] { body(comm); });
}

class LevelsOf : public testing::TestWithParam<Node> {};

TEST_P(LevelsOf, a_node_change_no_bits) {
  const auto all = cases(std::accumulate(GetParam().replicas.begin(), GetParam().replicas.end(), 0));
  std::atomic<int> wrong{0};
  on_node(GetParam(), minutes_to_fail(), [&](Communicator& comm) {
    for (const OpCase& what : all) {
      for (const auto place : {Results::Place::on_some_ranks, Results::Place::in_place, Results::Place::in_place})
        wrong += wrong_results(comm, what, {.place = place});
    }
  });
  EXPECT_EQ(wrong.load(), 0);
}

/// Hides every third block.
bool hides(const void* data) { return reinterpret_cast<std::uintptr_t>(data) / 4096 % 3 == 0; }
bool hides_all(const void*) { return true; }

TEST_P(LevelsOf, a_node_change_no_bits_of_memory_that_cannot_be_mapped) {
  const auto all = cases(std::accumulate(GetParam().replicas.begin(), GetParam().replicas.end(), 0));
  for (auto* const hide : {&hides, &hides_all}) {
    detail::TestHooks hooks;
    hooks.hides_memory = hide;
    std::atomic<int> wrong{0};
    on_node(GetParam(), minutes_to_fail(), [&](Communicator& comm) {
      CommunicatorAccess::set_test_hooks(comm, &hooks);
      for (const OpCase& what : all) wrong += wrong_results(comm, what, {.place = Results::Place::in_place});
    });
    EXPECT_EQ(wrong.load(), 0);
  }
}

TEST_P(LevelsOf, a_node_find_a_rank_that_makes_another_call) {
  const auto ranks = static_cast<int>(GetParam().cores.size());
  on_node(GetParam(), minutes_to_fail(), [&](Communicator& comm) {
    for (const int odd : {0, 5, ranks / 2, ranks - 1}) {
      std::vector<float> values(comm.rank() == odd ? 4 : 3, 1.0F);
      const std::string error = error_of([&] { comm.broadcast(std::span(values), 7); });
      const std::string other = odd == 0 ? "rank 1 calls broadcast of f32 [3] with root 7" : "of f32 [4]";
      expect_all(error, {"mismatch:", other, "rank " + std::to_string(odd) + " calls"});
      comm.barrier();
    }
  });
}

/// Every rank of a domain, of a socket, or of another part of the node makes the same call, but the others make
/// another.
TEST_P(LevelsOf, a_node_find_groups_that_make_another_call) {
  const std::vector<NodePlace> places = GetParam().places();
  const NodePlace last = places.back();
  const auto half = static_cast<int>(places.size()) / 2;
  const std::vector<std::function<bool(int)>> parts{
      [&](int rank) { return places[static_cast<std::size_t>(rank)].domain == last.domain; },
      [&](int rank) { return places[static_cast<std::size_t>(rank)].socket == last.socket; },
      [&](int rank) { return rank >= half; }, [&](int rank) { return rank % 2 == 1; }};
  on_node(GetParam(), minutes_to_fail(), [&](Communicator& comm) {
    for (const auto& is_odd : parts) {
      if (is_odd(0)) continue;                         // all ranks
      for (const std::int64_t count : {3, 100'000}) {  // small calls, and a small one beside a large one
        const std::int64_t own = is_odd(comm.rank()) ? count : 2;
        Batch batch({{DType::f32, own}}, comm.layout(), comm.rank());
        batch.reduce_in_place(0);
        const std::string error = error_of([&] { comm.all_reduce(batch.items(), ReduceOp::sum); });
        expect_all(error,
                   {"mismatch:", "rank 0 calls all_reduce sum of f32 [2]", "f32 [" + std::to_string(count) + "]"});
      }
      comm.barrier();
    }
  });
}

TEST(LevelsOfANode, take_calls_without_tensors) {
  on_node(nodes().back(), minutes_to_fail(), [](Communicator& comm) {
    comm.all_reduce(std::span<const Item>(), ReduceOp::sum);
    comm.broadcast(std::span<const Item>(), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Nodes, LevelsOf, testing::ValuesIn(nodes()), [](const auto& node) { return node.param.name; });

TEST(LevelsOfANode, serve_every_collective) {
  const Node node{"", "pack:2 l3:2 core:3 pu:1", first(12), {1, 2, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1}};
  on_node(node, minutes_to_fail(), [](Communicator& comm) { check_every_collective(comm); });
}

TEST(LevelsOfANode, are_shown_by_the_selection) {
  const Node node{"", "pack:2 l3:8 core:8 pu:1", first(128), ones(128)};
  on_node(node, minutes_to_fail(), [](Communicator& comm) {
    EXPECT_EQ(selected_schedule(comm, 8, BufferKind::arena), "with the agreement, levels 8.8.2");
    EXPECT_EQ(selected_schedule(comm, 64 << 10, BufferKind::other), "levels 8.8.r2");
    EXPECT_EQ(selected_schedule(comm, 64 << 20, BufferKind::arena), "slices in place");
  });
}

// ---- cache lines

/// Lines that one rank has read, by distance: same domain, same socket, other socket.
using Lines = std::array<long, 3>;

std::vector<NodePlace> counted_places;
std::vector<Lines> counted_lines;

void count_read(int reader, int owner, const void* data, std::size_t bytes) {
  const NodePlace& a = counted_places[static_cast<std::size_t>(reader)];
  const NodePlace& b = counted_places[static_cast<std::size_t>(owner)];
  const std::size_t distance = a.domain == b.domain ? 0 : a.socket == b.socket ? 1 : 2;
  const auto begin = reinterpret_cast<std::uintptr_t>(data) / detail::line_bytes;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes + detail::line_bytes - 1) / detail::line_bytes;
  counted_lines[static_cast<std::size_t>(reader)][distance] += static_cast<long>(end - begin);
}

/// The lines that the rank with the most lines reads in one all_reduce of `bytes` bytes in place.
Lines lines_of_all_reduce(const Node& node, std::size_t bytes) {
  counted_places = node.places();
  counted_lines.assign(node.cores.size(), {});
  detail::TestHooks hooks;
  hooks.at_read = count_read;
  on_node(node, minutes_to_fail(), [&](Communicator& comm) {
    CommunicatorAccess::set_test_hooks(comm, &hooks);
    std::vector<float> memory(bytes / sizeof(float) + 16, 1.0F);
    void* begin = memory.data();
    std::size_t room = memory.size() * sizeof(float);
    auto* const values = static_cast<float*>(std::align(detail::line_bytes, bytes, begin, room));
    const std::span<float> all(values, bytes / sizeof(float));
    Plan plan = comm.prepare_all_reduce(all, ReduceOp::max);
    for (int call = 0; call < 3; ++call) plan.run();  // the first call also reads tables of addresses
    for (const float value : all) ASSERT_EQ(value, 1.0F);
  });
  Lines most{};
  for (const Lines& each : counted_lines) {
    if (std::accumulate(each.begin(), each.end(), 0L) > std::accumulate(most.begin(), most.end(), 0L)) most = each;
  }
  for (long& lines : most) lines /= 3;
  return most;
}

TEST(LevelsOfANode, read_few_cache_lines) {
  if (is_quick()) GTEST_SKIP() << "the numbers are the same";
  const Node node = nodes().front();  // 2 sockets of 8 domains of 8 ranks
  // one line of each rank that a rank reads, with its data: 127 in one level
  EXPECT_EQ(lines_of_all_reduce(node, 8), (Lines{7, 7, 1}));
  // the agreement; then shares of 4 lines, shares of 1 line that 4 of 8 domains have, and copies of them
  EXPECT_EQ(lines_of_all_reduce(node, 2048), (Lines{7 + 7 * 4 + 7 * (1 + 4), 7 + 7 * 2 + 3 * 2, 1 + 2}));
  // 16 lines of each of 8 inputs, 2 lines of each of 8 domains, 2 lines of the other socket; then copies of results
  EXPECT_EQ(lines_of_all_reduce(node, 64 << 10), (Lines{7 + 7 * 128 + 7 * (1 + 128), 7 + 7 * 17 + 7 * 17, 1 + 17}));
}

// ---- failures

TEST(LevelsOfANode, name_the_rank_that_does_not_come_and_work_afterwards) {
  const Node node{"", "pack:2 l3:2 core:8 pu:1", first(32), ones(32)};
  for (const int late : {3, 12, 31}) {
    LateRanks ranks(32, {late});
    on_node(node, short_deadline(800), [&](Communicator& comm) {
      std::vector<float> values(100'000, 1.0F);
      comm.all_reduce(std::span(values), ReduceOp::sum, long_deadline());
      const std::string error =
          error_of([&] { ranks.call(comm, [&] { comm.all_reduce(std::span(values), ReduceOp::sum); }); });
      EXPECT_NE(error, "none");
      if (virtual_time::is_active() && comm.rank() != late) {
        expect_all(error, {"deadline_exceeded:", " " + std::to_string(late)});
      }
      std::vector<float> again;
      const auto recovers = [&] {
        static_cast<void>(comm.recover());
        again.assign(1000, 1.0F);
        comm.all_reduce(std::span(again), ReduceOp::sum, long_deadline());
      };
      for (int tries = 0; error_of(recovers) != "none"; ++tries) ASSERT_LT(tries, 200);
      for (const float value : again) ASSERT_EQ(value, 32.0F);
    });
  }
}

constexpr int stopped_rank = 6;
std::atomic<int> reads_before_stop;

void stop_at_read(int reader, int, const void*, std::size_t) {
  if (reader == stopped_rank && --reads_before_stop == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3500));
}

/// Rank 6 stops when it has read one of the 20 things that it reads: in each level of the agreement (reads 1 to 5), in
/// each stage (6 to 12), and in each stage in reverse (13 to 20).
TEST(LevelsOfANode, end_with_the_same_error_if_a_rank_stops_in_any_level) {
  const Node node{"", "pack:2 l3:2 core:4 pu:1", first(16), ones(16)};
  int all_named = 0;
  for (const int read : some_of<int>({1, 5, 6, 11, 13, 18})) {
    detail::TestHooks hooks;
    hooks.at_read = stop_at_read;
    reads_before_stop = read;
    std::atomic<int> named{0};
    std::atomic<int> wrong{0};
    on_node(node, short_deadline(1500), [&](Communicator& comm) {
      CommunicatorAccess::set_test_hooks(comm, &hooks);
      std::vector<float> values(4000, 1.0F);
      const std::string error = error_of([&] { comm.all_reduce(std::span(values), ReduceOp::sum); });
      // the ranks that do not need the rest of rank 6 have the result
      if (error.find(" 6") != std::string::npos) ++named;
      if (error == "none") wrong += values != std::vector<float>(4000, 16.0F) ? 1 : 0;
      std::vector<float> again;
      const auto recovers = [&] {
        static_cast<void>(comm.recover());  // fails until rank 6 goes on
        again.assign(1000, 1.0F);
        comm.all_reduce(std::span(again), ReduceOp::sum, long_deadline());
      };
      for (int tries = 0; error_of(recovers) != "none"; ++tries) ASSERT_LT(tries, 200);
      wrong += again != std::vector<float>(1000, 16.0F) ? 1 : 0;
    });
    EXPECT_LE(reads_before_stop.load(), 0);
    EXPECT_EQ(wrong.load(), 0) << "read " << read;
    all_named += named.load();
  }
  // in real time, a rank may wait longer than rank 6 is stopped, or another rank may be late
  EXPECT_GE(all_named, virtual_time::is_active() ? 3 : 0);
}

}  // namespace
}  // namespace lockstep::test
