// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Every collective on several nodes, at random sizes and times, and calls of different collectives.

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/tensor_view.hpp>

#include "collectives/engine/engine.hpp"
#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/delays.hpp"
#include "support/errors.hpp"
#include "support/nodes.hpp"
#include "support/quick.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

const std::vector<std::vector<int>> all_leaders{
    {0, 1}, {0, 0, 2, 2}, {0, 1, 1, 3, 3}, {0, 0, 0, 3, 3, 3}, {0, 1, 2, 3, 4}, {0, 0, 2, 2, 4, 4, 6, 6}, {0, 0, 0}};

NodeLayout one_replica_each(const std::vector<int>& leaders) { return {leaders, std::vector<int>(leaders.size(), 1)}; }

/// Calls of all kinds, whose values identify the sender, the element and the call.
class EveryKind {
 public:
  explicit EveryKind(Communicator& comm) : comm_(comm), size_(static_cast<std::size_t>(comm.size())) {}

  static constexpr unsigned kinds = 12;

  /// Makes one call. `part` elements are a part of the call's data for one rank.
  void call(unsigned kind, int root, std::size_t part, int number) {
    number_ = number;
    const bool is_root = comm_.rank() == root;
    const std::size_t whole = part * size_;
    const auto sum = [&](std::size_t i) {
      std::int64_t total = 0;
      for (int rank = 0; rank < comm_.size(); ++rank) total += value(rank, i);
      return total;
    };
    const auto gathered = [&](std::size_t i) { return value(static_cast<int>(i / part), i % part); };
    const std::size_t own = part * static_cast<std::size_t>(comm_.rank());
    switch (kind) {
      case 0:
        in_ = values_of(comm_.rank(), whole);
        comm_.all_reduce(std::span(in_), ReduceOp::sum);
        return check(in_, whole, sum);
      case 1:
        in_ = values_of(comm_.rank(), whole);
        out_.assign(is_root ? whole : 0, -1);
        comm_.reduce(std::span(std::as_const(in_)), std::span(out_), ReduceOp::sum, root);
        return check(out_, is_root ? whole : 0, sum);
      case 2:
        in_ = values_of(comm_.rank(), whole);
        out_.assign(part, -1);
        comm_.reduce_scatter(std::span(std::as_const(in_)), std::span(out_), ReduceOp::sum);
        return check(out_, part, [&](std::size_t i) { return sum(own + i); });
      case 3:
        in_ = values_of(comm_.rank(), part);
        out_.assign(whole, -1);
        comm_.all_gather(std::span(std::as_const(in_)), std::span(out_));
        return check(out_, whole, gathered);
      case 4:
        in_ = values_of(comm_.rank(), part);
        out_.assign(is_root ? whole : 0, -1);
        comm_.gather(std::span(std::as_const(in_)), std::span(out_), root);
        return check(out_, is_root ? whole : 0, gathered);
      case 5:
        in_ = values_of(root, is_root ? whole : 0);
        out_.assign(part, -1);
        comm_.scatter(std::span(std::as_const(in_)), std::span(out_), root);
        return check(out_, part, [&](std::size_t i) { return value(root, own + i); });
      case 6:
        in_ = values_of(comm_.rank(), whole);
        out_.assign(whole, -1);
        comm_.all_to_all(std::span(std::as_const(in_)), std::span(out_));
        return check(out_, whole, [&](std::size_t i) { return value(static_cast<int>(i / part), own + i % part); });
      case 7:
        in_ = is_root ? values_of(root, whole) : std::vector<std::int64_t>(whole, -1);
        comm_.broadcast(std::span(in_), root);
        return check(in_, whole, [&](std::size_t i) { return value(root, i); });
      default: return call_with_rows(kind, root, part);
    }
  }

  /// A call with parts of different sizes: none, `part` or twice as many elements.
  void call_with_rows(unsigned kind, int root, std::size_t part) {
    const bool is_root = comm_.rank() == root;
    const auto size_of_part = [&](int source, int target) {
      return part * static_cast<std::size_t>((source + target + number_) % 3);
    };
    std::vector<std::int64_t> rows;
    std::vector<int> owners;  // of each element of all parts
    std::vector<std::size_t> begins;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const std::size_t size = size_of_part(rank, kind == 11 ? comm_.rank() : 0);
      begins.push_back(owners.size());
      rows.push_back(static_cast<std::int64_t>(size));
      owners.insert(owners.end(), size, rank);
    }
    const std::size_t own = static_cast<std::size_t>(rows[static_cast<std::size_t>(comm_.rank())]);
    const std::size_t own_begin = begins[static_cast<std::size_t>(comm_.rank())];
    const auto gathered = [&](std::size_t i) {
      return value(owners[i], i - begins[static_cast<std::size_t>(owners[i])]);
    };
    switch (kind) {
      case 8:
        in_ = values_of(comm_.rank(), own);
        out_.assign(owners.size(), -1);
        comm_.all_gather_v(std::span(std::as_const(in_)), std::span(out_), rows);
        return check(out_, owners.size(), gathered);
      case 9:
        in_ = values_of(comm_.rank(), own);
        out_.assign(is_root ? owners.size() : 0, -1);
        comm_.gather_v(std::span(std::as_const(in_)), std::span(out_), rows, root);
        return check(out_, out_.size(), gathered);
      case 10:
        in_ = values_of(root, is_root ? owners.size() : 0);
        out_.assign(own, -1);
        comm_.scatter_v(std::span(std::as_const(in_)), std::span(out_), rows, root);
        return check(out_, own, [&](std::size_t i) { return value(root, own_begin + i); });
      default: {
        in_ = values_of(comm_.rank(), owners.size());  // the sizes of parts are symmetric
        out_.assign(owners.size(), -1);
        comm_.all_to_all_v(std::span(std::as_const(in_)), std::span(out_), rows, rows);
        const auto begin_at = [&](int source) {
          std::size_t begin = 0;
          for (int target = 0; target < comm_.rank(); ++target) begin += size_of_part(source, target);
          return begin;
        };
        return check(out_, owners.size(), [&](std::size_t i) {
          return value(owners[i], begin_at(owners[i]) + i - begins[static_cast<std::size_t>(owners[i])]);
        });
      }
    }
  }

  static constexpr unsigned kinds_in_place = 6;

  /// As `call`, but the input or output of this rank is its part of the larger tensor. `kind` 0 has the output of a
  /// reduce_scatter where MPI_IN_PLACE has it; 5 is an all_to_all whose output is its input.
  void call_in_place(unsigned kind, int root, std::size_t part, int number) {
    number_ = number;
    const bool is_root = comm_.rank() == root;
    const std::size_t whole = part * size_;
    const std::size_t own = part * static_cast<std::size_t>(comm_.rank());
    const auto is_in = [&](std::size_t i, std::size_t begin) { return i >= begin && i - begin < part; };
    const auto sum = [&](std::size_t i) {
      std::int64_t total = 0;
      for (int rank = 0; rank < comm_.size(); ++rank) total += value(rank, i);
      return total;
    };
    const auto gathered = [&](std::size_t i) { return value(static_cast<int>(i / part), i % part); };
    if (kind < 2) {
      const std::size_t begin = kind == 0 ? 0 : own;
      in_ = values_of(comm_.rank(), whole);
      comm_.reduce_scatter(std::span(std::as_const(in_)), std::span(in_).subspan(begin, part), ReduceOp::sum);
      return check(in_, whole,
                   [&](std::size_t i) { return is_in(i, begin) ? sum(own + i - begin) : value(comm_.rank(), i); });
    }
    if (kind == 5) {
      in_ = values_of(comm_.rank(), whole);
      comm_.all_to_all(std::span(std::as_const(in_)), std::span(in_));
      return check(in_, whole, [&](std::size_t i) { return value(static_cast<int>(i / part), own + i % part); });
    }
    const std::vector<std::int64_t> mine = values_of(comm_.rank(), part);
    if (kind == 4) {
      in_ = values_of(root, is_root ? whole : 0);
      out_.assign(is_root ? 0 : part, -1);
      comm_.scatter(std::span(std::as_const(in_)), is_root ? std::span(in_).subspan(own, part) : std::span(out_), root);
      check(in_, in_.size(), [&](std::size_t i) { return value(root, i); });
      return check(out_, out_.size(), [&](std::size_t i) { return value(root, own + i); });
    }
    const bool has_result = kind == 2 || is_root;
    out_.assign(has_result ? whole : 0, -1);
    if (has_result) std::copy(mine.begin(), mine.end(), out_.begin() + static_cast<std::ptrdiff_t>(own));
    const std::span<const std::int64_t> input =
        has_result ? std::span(std::as_const(out_)).subspan(own, part) : std::span(mine);
    if (kind == 2) {
      comm_.all_gather(input, std::span(out_));
    } else {
      comm_.gather(input, std::span(out_), root);
    }
    check(out_, out_.size(), gathered);
  }

  /// Makes a call that fails, and checks that it has written nothing; then writes to all its buffers.
  void call_and_fail(unsigned kind, std::size_t part, Code code) {
    try {
      call(kind, 0, part, 0);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
    }
    const bool is_in_place = kind == 0 || kind == 7;
    if (is_in_place) {
      const bool has_values = kind == 0 || comm_.rank() == 0;
      check(in_, part * size_, [&](std::size_t i) { return has_values ? value(comm_.rank(), i) : std::int64_t{-1}; });
    } else {
      EXPECT_TRUE(std::all_of(out_.begin(), out_.end(), [](std::int64_t each) { return each == -1; }));
    }
    std::fill(in_.begin(), in_.end(), -2);
    std::fill(out_.begin(), out_.end(), -2);
  }
  /// Whether nothing was written to the buffers of the failed call since it failed.
  [[nodiscard]] bool are_untouched() const {
    const auto is_mark = [](std::int64_t each) { return each == -2; };
    return std::all_of(in_.begin(), in_.end(), is_mark) && std::all_of(out_.begin(), out_.end(), is_mark);
  }

 private:
  [[nodiscard]] std::int64_t value(int rank, std::size_t i) const {
    return static_cast<std::int64_t>(i) * (rank + 1) + 1000 * number_ + rank;
  }
  [[nodiscard]] std::vector<std::int64_t> values_of(int rank, std::size_t count) const {
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value(rank, i);
    return values;
  }
  template <class Expected>
  void check(const std::vector<std::int64_t>& values, std::size_t count, const Expected& expected) const {
    ASSERT_EQ(values.size(), count);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], expected(i)) << "element " << i;
  }

  Communicator& comm_;
  std::size_t size_;
  int number_ = 0;
  std::vector<std::int64_t> in_;
  std::vector<std::int64_t> out_;
};

/// Makes `calls` calls with random roots and sizes, `call(every, number, root, part)`, on the ranks of each layout,
/// with shared memory and without.
template <class Call>
void make_random_calls(int calls, unsigned seed, const Call& call) {
  for (const auto& leaders : all_leaders) {
    for (const bool share_memory : {true, false}) {
      on_nodes(one_replica_each(leaders), {.share_memory = share_memory}, [&](Communicator& comm) {
        CommunicatorAccess::set_test_hooks(comm, &delays_and_hidden_memory);
        EveryKind every(comm);
        std::minstd_rand random(seed);  // the same on all ranks
        for (int number = 0; number < calls; ++number) {
          const int root = static_cast<int>(random() % static_cast<unsigned>(comm.size()));
          call(every, number, root, std::size_t{1} << random() % 15);
          if (testing::Test::HasFatalFailure()) return;
        }
      });
    }
  }
}

TEST(SeveralNodes, and_one_node_give_the_values_of_every_collective_at_random_sizes_roots_and_times) {
  make_random_calls(is_quick() ? 36 : 144, 17, [](EveryKind& every, int number, int root, std::size_t part) {
    every.call(static_cast<unsigned>(number) % EveryKind::kinds, root, part, number);
  });
}

/// By rank, the leaders of `nodes` nodes of `ranks` ranks each.
std::vector<int> nodes_of(int nodes, int ranks) {
  std::vector<int> leaders;
  for (int rank = 0; rank < nodes * ranks; ++rank) leaders.push_back(rank / ranks * ranks);
  return leaders;
}

TEST(SeveralNodes, of_64_ranks_give_the_values_of_every_collective) {
  for (const bool share_memory : {true, false}) {
    if (is_quick() && !share_memory) continue;
    on_nodes(one_replica_each(nodes_of(8, 8)), {.share_memory = share_memory}, [](Communicator& comm) {
      EveryKind every(comm);
      int number = 0;
      for (const std::size_t part : some_of<std::size_t>({1, 300})) {
        for (unsigned kind = 0; kind < EveryKind::kinds; ++kind) {
          every.call(kind, number % comm.size(), part, number);
          if (testing::Test::HasFatalFailure()) return;
          number += 7;
        }
      }
    });
  }
}

/// Nodes with as many ranks, whose ranks have different numbers of replicas: parts travel in stages.
TEST(SeveralNodes, and_one_node_give_the_values_of_every_collective_with_uneven_replicas) {
  for (const bool share_memory : {true, false}) {
    for (const bool carries : {true, false}) {
      if (is_quick() && share_memory == carries) continue;
      for (const NodeLayout& layout :
           {NodeLayout{{0, 0, 2, 2, 4, 4}, {1, 2, 3, 1, 1, 2}}, NodeLayout{{0, 1, 2, 3, 4}, {2, 1, 1, 3, 1}},
            NodeLayout{{0, 0, 0}, {2, 1, 3}}}) {
        on_nodes(layout, {share_memory, carries}, [](Communicator& comm) {
          CommunicatorAccess::set_test_hooks(comm, &delays_and_hidden_memory);
          check_every_collective(comm);
        });
      }
    }
  }
}

/// Each rank sends its part once to each other node, and receives a part of each.
TEST(SeveralNodes, exchange_uneven_parts_with_one_message_for_each_other_node) {
  on_nodes(one_replica_each({0, 0, 0, 3, 3, 3, 6, 6, 6}), {.carries = false}, [](Communicator& comm) {
    const auto transfers = [&] { return CommunicatorAccess::engine(comm).transport().count().completed; };
    std::vector<std::int64_t> rows;
    for (int rank = 0; rank < comm.size(); ++rank) rows.push_back(20'000 + 1000 * rank);
    const std::vector<float> own(static_cast<std::size_t>(rows[static_cast<std::size_t>(comm.rank())]), 1.0F);
    std::vector<float> all(static_cast<std::size_t>(std::accumulate(rows.begin(), rows.end(), std::int64_t{0})));
    const auto before = transfers();
    comm.all_gather_v(std::span(own), std::span(all), rows);
    EXPECT_EQ(transfers() - before, 2 * 2U);
  });
}

/// So many that small parts travel in several rounds, and large ones in one.
TEST(SeveralNodes, exchange_parts_of_every_size) {
  std::vector<std::vector<int>> layouts = {nodes_of(13, 1), nodes_of(12, 3)};
  if (!is_quick()) layouts.insert(layouts.end(), {nodes_of(24, 1), nodes_of(9, 2)});
  for (const auto& leaders : layouts) {
    for (const bool carries : {true, false}) {
      on_nodes(one_replica_each(leaders), {.carries = carries}, [](Communicator& comm) {
        CommunicatorAccess::set_test_hooks(comm, &delays_and_hidden_memory);
        EveryKind every(comm);
        for (int number = 0; number < 10; ++number) {
          every.call(6, 0, std::size_t{3} << number, number);
          if (testing::Test::HasFatalFailure()) return;
        }
      });
    }
  }
}

TEST(SeveralNodes, and_one_node_give_the_values_of_calls_in_place) {
  make_random_calls(is_quick() ? 20 : 60, 18, [](EveryKind& every, int number, int root, std::size_t part) {
    every.call_in_place(static_cast<unsigned>(number) % EveryKind::kinds_in_place, root, part, number);
  });
}

/// The ranks of one node start; those of the other node come late, with another call.
TEST(SeveralNodes, writes_nothing_if_a_late_node_makes_another_call) {
  for (const bool share_memory : {true, false}) {
    on_nodes(one_replica_each({0, 0, 0, 3, 3, 3}), {.share_memory = share_memory}, [](Communicator& comm) {
      CommunicatorAccess::set_test_hooks(comm, &delays_and_hidden_memory);
      EveryKind every(comm);
      for (unsigned kind = 0; kind < EveryKind::kinds; ++kind) {
        for (unsigned other = 0; other < EveryKind::kinds; ++other) {
          if (is_quick() && (kind + other) % 4 != 0) continue;
          comm.barrier();
          const bool is_late = comm.rank() >= 3;
          if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(4));
          every.call_and_fail(is_late ? other : kind, is_late ? 700 : 900, Code::mismatch);
          comm.barrier();
          EXPECT_TRUE(every.are_untouched()) << kind << ' ' << other;
          every.call(other, 0, 800, 1);
        }
      }
    });
  }
}

TEST(SeveralNodes, ends_with_the_failure_of_a_rank_of_another_node) {
  for (const bool share_memory : {true, false}) {
    on_nodes(one_replica_each({0, 0, 0, 3, 3, 3}), {.share_memory = share_memory}, [](Communicator& comm) {
      CommunicatorAccess::set_test_hooks(comm, &delays_and_hidden_memory);
      EveryKind every(comm);
      for (unsigned kind = 0; kind < EveryKind::kinds; ++kind) {
        comm.barrier();
        if (comm.rank() == 4) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          comm.abort("it cannot");
        } else {
          every.call_and_fail(kind, 900, Code::unavailable);
        }
        static_cast<void>(comm.recover());
        comm.barrier();
        EXPECT_TRUE(comm.rank() == 4 || every.are_untouched()) << kind;
        every.call(kind, 1, 800, 1);
      }
    });
  }
}

// Rank 0 is in `recover`, and rank 1 still in the operation before, in which it waits for rank 2. When rank 2 goes on,
// rank 1 completes this operation and makes no further call.
TEST(SeveralNodes, name_a_rank_that_completes_an_operation_of_an_earlier_epoch_and_makes_no_further_call) {
  if (!virtual_time::is_active()) GTEST_SKIP() << "it stops a rank at one of its turns, in virtual time";
  constexpr int stopped = 2;
  std::string error;
  for (std::uint64_t turns = 1; turns <= 60 && error.empty(); ++turns) {
    bool has_aborted = false;
    bool has_gathered = false;
    bool is_case = false;
    std::jthread continues([&] {
      std::this_thread::sleep_for(std::chrono::seconds(200));  // after the probe, before the deadline of 240 s
      is_case = has_aborted && !has_gathered;
      virtual_time::continue_group(stopped);
    });
    on_nodes(one_replica_each({0, 1, 2}), {}, [&](Communicator& comm) {
      const int rank = comm.rank();
      virtual_time::join_group(rank);
      std::vector<float> input(20000);
      std::vector<float> output(rank == 1 ? 60000 : 0);
      const ConstTensorView in{input.data(), DType::f32, Shape{20000}, {}};
      const TensorView out{output.data(), DType::f32, Shape{60000}, {}};
      const Item item{std::span(&in, 1), std::span(&out, rank == 1 ? 1 : 0)};
      comm.barrier();
      if (rank == stopped) virtual_time::stop_group(stopped, turns);
      try {
        comm.gather(std::span(&item, 1), 1);
        if (rank == 0) {
          comm.abort("a fault of rank 0");
          has_aborted = true;
        }
        if (rank == 1) has_gathered = true;
        if (rank == stopped) comm.barrier();
      } catch (const Error&) {}  // NOLINT(bugprone-empty-catch): ranks that have stopped earlier
      try {
        if (rank != 1) static_cast<void>(comm.recover());
      } catch (const Error& thrown) {
        if (rank == 0 && is_case) error = thrown.what();
      }
      std::this_thread::sleep_for(std::chrono::seconds(1000));  // leaves when the others have ended
    });
  }
  EXPECT_NE(error.find("waiting for rank 1, which made this call too late or not at all"), std::string::npos) << error;
}

thread_local bool is_held_in_work = false;

TEST(SeveralNodes, name_the_rank_for_which_another_one_waits_while_it_abandons_an_operation) {
  if (!virtual_time::is_active()) GTEST_SKIP() << "a rank waits for the deadline of 240 s";
  constexpr detail::TestHooks holds{.at_turn = [] {
    if (std::exchange(is_held_in_work, false)) std::this_thread::sleep_for(std::chrono::seconds(700));
  }};
  on_nodes(one_replica_each({0, 0, 2, 2}), {}, [&](Communicator& comm) {
    CommunicatorAccess::set_test_hooks(comm, &holds);
    std::vector<float> values(100'000);
    comm.barrier();
    is_held_in_work = comm.rank() == 3;  // in its work in the memory of rank 2
    std::string error = error_of([&] { comm.broadcast(std::span(values), 0); });
    if (comm.rank() < 2) {  // they have their results
      EXPECT_EQ(error, "none");
      error = error_of([&] { comm.barrier(); });
    }
    expect_all(error, {"deadline_exceeded:", "waiting for rank 3"});
    // before rank 2 has abandoned the broadcast
    expect_all(error_of([&] { comm.barrier(); }),
               {"deadline_exceeded: operation #0", "waiting for rank 3, which made this call too late or not at all"});
    static_cast<void>(comm.recover());
  });
}

}  // namespace
}  // namespace lockstep::test
