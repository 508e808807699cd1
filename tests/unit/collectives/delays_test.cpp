// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are slow at random moments: at every flag that they show to each other.

#include <lockstep/base/error.hpp>

#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/delays.hpp"
#include "support/errors.hpp"
#include "support/function_ref.hpp"
#include "support/nodes.hpp"
#include "support/quick.hpp"
#include "support/ranks.hpp"
#include "transport/shm/node_group.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

/// As on_ranks, of communicators with `hooks`.
void on_ranks_with(const detail::TestHooks& hooks, const std::vector<int>& counts,
                   FunctionRef<void(Communicator&)> body, const CommunicatorOptions& options = {}) {
  on_ranks(
      counts,
      [&](Communicator& comm) {
        CommunicatorAccess::set_test_hooks(comm, &hooks);
        body(comm);
      },
      options);
}

TEST(Delays, at_flags_change_nothing) {
  for (const auto& counts : {std::vector<int>{1, 1}, {1, 1, 1}, {2, 1, 3}, {1, 1, 1, 1, 1}}) {
    on_ranks_with(delays, counts, [](Communicator& comm) { check_every_collective(comm); });
  }
}

/// Every collective where each rank shares memory with some of the others only.
void check_on_several_nodes(const detail::TestHooks& hooks) {
  for (const auto& leaders : {std::vector<int>{0, 0, 2, 2}, {0, 0, 0, 3}, {0, 1, 1, 3, 3}}) {
    on_nodes({leaders, std::vector<int>(leaders.size(), 1)}, {}, [&](Communicator& comm) {
      CommunicatorAccess::set_test_hooks(comm, &hooks);
      check_every_collective(comm);
      std::minstd_rand sizes(7);  // the same on all ranks
      for (int i = 0; i < (is_quick() ? 50 : 200); ++i) {
        std::vector<std::int64_t> values(1 + sizes() % (sizes() % 3 == 0 ? 20 : 5000));
        for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<std::int64_t>(k) * comm.rank() + i;
        comm.all_reduce(std::span(values), ReduceOp::sum);
        const std::int64_t ranks = comm.size();
        for (std::size_t k = 0; k < values.size(); ++k)
          ASSERT_EQ(values[k], static_cast<std::int64_t>(k) * ranks * (ranks - 1) / 2 + ranks * i);
      }
    });
  }
}

TEST(Delays, at_flags_change_nothing_on_several_nodes) { check_on_several_nodes(delays); }

TEST(DelaysWithHiddenMemory, at_flags_change_nothing_on_several_nodes) {
  check_on_several_nodes(delays_and_hidden_memory);
  // a rank may stage less than some tensors have: its node then sends messages
  check_on_several_nodes({.at_flag = random_delay, .hides_memory = hides_some, .most_staged_bytes = 10'000});
}

TEST(DelaysWithHiddenMemory, at_flags_change_nothing) {
  for (const auto& counts : {std::vector<int>{1, 1}, {2, 1, 3}}) {
    on_ranks_with(delays_and_hidden_memory, counts, [](Communicator& comm) { check_every_collective(comm); });
  }
}

/// Calls of every kind, whose values identify the producer and the call.
class Neighbours {
 public:
  explicit Neighbours(Communicator& comm) : comm_(comm) {}

  /// Everything is drawn from `random`, the same on all ranks.
  void call(std::minstd_rand& random, int number) {
    const auto kind = random() % 6;
    const int root = static_cast<int>(random() % 3);
    const bool is_root = comm_.rank() == root;
    // a line, a few pages, several rounds
    const auto scale = random() % 40;
    const auto elements = static_cast<std::int64_t>(1 + random() % (scale < 15 ? 20 : scale < 39 ? 5000 : 250'000)) * 3;
    const auto value = [&](int rank, std::int64_t k) { return k * (rank + 1) + number; };
    const auto sum = [&](std::int64_t k) { return 6 * k + 3 * number; };
    const auto gathered = [&](std::int64_t k) { return value(static_cast<int>(k / elements), k % elements); };
    input_.resize(static_cast<std::size_t>(elements));
    for (std::int64_t k = 0; k < elements; ++k) input_[static_cast<std::size_t>(k)] = value(comm_.rank(), k);
    switch (kind) {
      case 0: run(elements, true, true, [&](auto items) { comm_.all_reduce(items, ReduceOp::sum); }, sum); break;
      case 1: run(elements, true, is_root, [&](auto items) { comm_.reduce(items, ReduceOp::sum, root); }, sum); break;
      case 2:
        run(
            elements / 3, true, true, [&](auto items) { comm_.reduce_scatter(items, ReduceOp::sum); },
            [&](std::int64_t k) { return sum(comm_.rank() * (elements / 3) + k); });
        break;
      case 3: run(elements * 3, true, true, [&](auto items) { comm_.all_gather(items); }, gathered); break;
      case 4: run(elements * 3, true, is_root, [&](auto items) { comm_.gather(items, root); }, gathered); break;
      default:
        run(
            elements, is_root, true, [&](auto items) { comm_.broadcast(items, root); },
            [&](std::int64_t k) { return value(root, k); });
    }
  }

 private:
  template <class Call, class Expected>
  void run(std::int64_t count, bool gives, bool gets, const Call& call, const Expected& expected) {
    output_.assign(static_cast<std::size_t>(count), -1);
    const ConstTensorView input = view_of(std::span<const std::int64_t>(input_));
    const TensorView output = view_of(std::span(output_));
    const Item item{std::span(&input, gives ? 1 : 0), std::span(&output, gets ? 1 : 0)};
    call(std::span(&item, 1));
    for (std::int64_t k = 0; k < count && gets; ++k) ASSERT_EQ(output_[static_cast<std::size_t>(k)], expected(k));
  }

  Communicator& comm_;
  std::vector<std::int64_t> input_;
  std::vector<std::int64_t> output_;
};

/// Small and large calls in turn: what one rank still reads of a call must outlive what others do in the next.
void check_neighbours(const detail::TestHooks& hooks) {
  on_ranks_with(hooks, {1, 1, 1}, [](Communicator& comm) {
    std::minstd_rand random(7);
    Neighbours neighbours(comm);
    for (int i = 0; i < 400; ++i) neighbours.call(random, i);
  });
}

TEST(Delays, at_flags_do_not_mix_neighbouring_calls) { check_neighbours(delays); }
TEST(DelaysWithHiddenMemory, at_flags_do_not_mix_neighbouring_calls) { check_neighbours(delays_and_hidden_memory); }

TEST(Delays, at_flags_leave_every_rank_with_the_same_failure) {
  for (int round = 0; round < 10; ++round) {
    on_ranks_with(delays, {1, 1, 1}, [&](Communicator& comm) {
      std::vector<float> values(3000, 1.0f);
      comm.all_reduce(std::span(values), ReduceOp::sum);
      if (comm.rank() == round % 3) {
        comm.abort("no more apples");
      } else {
        EXPECT_THROW(comm.all_reduce(std::span(values), ReduceOp::sum), Error);
      }
      values.assign(3000, 1.0f);
      comm.all_reduce(std::span(values), ReduceOp::sum);
      EXPECT_EQ(values[2999], 3.0f);
    });
  }
}

/// Holds one thread at one of its flags until it may go.
struct Hold {
  std::atomic<bool> is_held{false};
  std::atomic<bool> may_go{false};
  std::atomic<int> marked{0};  // ranks that have written over their buffers
  std::atomic<bool> has_gone{false};
};
thread_local Hold* hold = nullptr;  // of this thread
thread_local int flags_left = 0;

void hold_at_flag() {
  if (hold == nullptr || --flags_left != 0) return;
  hold->is_held = true;
  while (!hold->may_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class StoppedThread : public testing::Test {
 public:
  static constexpr std::size_t count = 30'000;
  using Call = void (*)(Communicator&, std::vector<float>&, std::vector<float>&);
  static constexpr std::array<Call, 4> calls{
      [](Communicator& comm, std::vector<float>& values, std::vector<float>&) {
        comm.all_reduce(std::span(values), ReduceOp::sum);
      },
      [](Communicator& comm, std::vector<float>& values, std::vector<float>& result) {
        const auto input = view_of(std::span<const float>(values));
        const auto output = view_of(std::span(result).first(values.size() / 3));
        const Item item{std::span(&input, 1), std::span(&output, 1)};
        comm.reduce_scatter(std::span(&item, 1), ReduceOp::sum);
      },
      [](Communicator& comm, std::vector<float>& values, std::vector<float>& result) {
        const auto input = view_of(std::span<const float>(values));
        const auto output = view_of(std::span(result));
        const Item item{std::span(&input, 1), std::span(&output, 1)};
        comm.all_gather(std::span(&item, 1));
      },
      [](Communicator& comm, std::vector<float>& values, std::vector<float>& result) {
        const auto input = view_of(std::span<const float>(values));
        const auto output = view_of(std::span(result).first(values.size()));
        const Item item{std::span(&input, comm.rank() == 0 ? 1 : 0), std::span(&output, 1)};
        comm.broadcast(std::span(&item, 1), 0);
      }};

  static bool fails(FunctionRef<void()> body) {
    try {
      body();
    } catch (const Error&) {
      return true;
    }
    return false;
  }

 protected:
  void SetUp() override {
    if (std::getenv("LOCKSTEP_SHARED_MEMORY") != nullptr) GTEST_SKIP() << "messages have no flags";
  }
};

constexpr detail::TestHooks holds{.at_flag = hold_at_flag};

/// Rank 2 stops for so long that the others time out, repeatedly, and use their memory for other purposes; rank 2 does
/// no harm when it continues.
void check_stopped(StoppedThread::Call call, int flag) {
  constexpr std::size_t count = StoppedThread::count;
  Hold held;
  on_ranks_with(
      holds, {1, 1, 1},
      [&](Communicator& comm) {
        std::vector<float> values(count, 1.0f);
        std::vector<float> result(3 * count, 0.0f);
        // an even number of calls: the next one, and the first of every epoch, share a place on the control blocks
        comm.barrier(long_deadline());
        call(comm, values, result);
        if (comm.rank() == 2) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that all are there when it comes
          hold = &held;
          flags_left = flag;
          StoppedThread::fails([&] { call(comm, values, result); });
          hold = nullptr;
          held.has_gone = true;
        } else {
          int failed = StoppedThread::fails([&] { call(comm, values, result); }) ? 1 : 0;
          while (held.is_held && failed < 3) failed += StoppedThread::fails([&] { comm.barrier(); }) ? 1 : 0;
          values.assign(values.size(), -1.0f);
          result.assign(result.size(), -2.0f);
          if (++held.marked == 2) held.may_go = true;
          while (!held.has_gone) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_EQ(values, std::vector<float>(count, -1.0f));
          EXPECT_EQ(result, std::vector<float>(3 * count, -2.0f));
          if (virtual_time::is_active()) {  // else rank 2 may come too late
            EXPECT_TRUE(held.is_held);
            EXPECT_EQ(failed, 3);
          }
        }
        int tries = 0;
        while (StoppedThread::fails([&] { static_cast<void>(comm.recover()); })) ASSERT_LT(++tries, 200);
        values.assign(count, 1.0f);
        comm.all_reduce(std::span(values), ReduceOp::sum, long_deadline());
        EXPECT_EQ(values.back(), 3.0f);
      },
      short_deadline(1000));
}

class StoppedThreadAtFlag : public StoppedThread, public testing::WithParamInterface<int> {};

TEST_P(StoppedThreadAtFlag, does_not_harm_ranks_that_have_abandoned_the_operation) {
  std::vector<std::jthread> at_once;  // they wait most of the time
  for (const Call call : calls) {
    at_once.emplace_back([call] {
      try {
        check_stopped(call, GetParam());
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
}

thread_local int turns_left = 0;  // of this thread

void hold_in_work() {
  if (hold == nullptr || --turns_left != 0) return;
  hold->is_held = true;
  // the others begin to wait when they have done their own work, so the pause must be longer than that work
  std::this_thread::sleep_for(std::chrono::milliseconds(virtual_time::is_active() ? 2500 : 10'000));
}

constexpr detail::TestHooks holds_in_work{.at_turn = hold_in_work};

/// In one call of the C library: a loop over millions of elements takes seconds with a sanitizer.
bool are_all(const std::vector<float>& values, float value) {
  return values.front() == value &&
         std::memcmp(values.data(), values.data() + 1, (values.size() - 1) * sizeof(float)) == 0;
}

/// Rank 2 is late in the middle of its work in the memory of the others: the others get their memory back when it has
/// left it, and it has no result.
void check_late_in_work(StoppedThread::Call call, int turn) {
  constexpr std::size_t count = 3 << 20;
  Hold held;
  on_ranks_with(
      holds_in_work, {1, 1, 1},
      [&](Communicator& comm) {
        std::vector<float> values(count, 1.0f);
        std::vector<float> result(3 * count, 0.0f);
        comm.barrier(long_deadline());
        if (comm.rank() == 2) {
          hold = &held;
          turns_left = turn;
          EXPECT_TRUE(StoppedThread::fails([&] { call(comm, values, result); }));
          hold = nullptr;
          EXPECT_TRUE(held.is_held);
          held.has_gone = true;
        } else {
          const std::string error = error_of([&] { call(comm, values, result); });
          EXPECT_NE(error, "none");
          EXPECT_EQ(error.find("(moved"), std::string::npos) << error;  // the ranks do not count bytes in direct access
          values.assign(values.size(), -1.0f);
          result.assign(result.size(), -2.0f);
          while (!held.has_gone) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_TRUE(are_all(values, -1.0f));
          EXPECT_TRUE(are_all(result, -2.0f));
        }
        int tries = 0;
        while (StoppedThread::fails([&] { comm.barrier(long_deadline()); })) ASSERT_LT(++tries, 200);
        values.assign(count, 1.0f);
        comm.all_reduce(std::span(values), ReduceOp::sum, long_deadline());
        EXPECT_EQ(values.back(), 3.0f);
      },
      short_deadline(1000));
}

TEST_F(StoppedThread, has_no_result_and_harms_no_rank_if_it_is_late_in_its_work) {
  std::vector<std::jthread> at_once;
  for (const auto& [call, turn] : {std::pair(calls[0], 1), {calls[0], 2}, {calls[2], 3}}) {
    at_once.emplace_back([call, turn] {
      try {
        check_late_in_work(call, turn);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
}

// of the flags of a rank that comes last: its arrival, before it works, after it has worked
INSTANTIATE_TEST_SUITE_P(AtEveryFlag, StoppedThreadAtFlag, testing::Values(1, 3, 4));

}  // namespace
}  // namespace lockstep::test
