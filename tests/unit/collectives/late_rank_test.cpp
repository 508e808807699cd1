// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank that waits for long for another one sleeps until that one wakes it, and then goes on at once.

#include "collectives/make_communicator.hpp"
#include "support/function_ref.hpp"
#include "support/ranks.hpp"
#include "transport/shm/node_group.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using detail::TestHooks;
using std::chrono::nanoseconds;

constexpr TestHooks hidden_memory{.hides_memory = [](const void*) { return true; }};
constexpr TestHooks rounds_of_staging{.hides_memory = [](const void*) { return true; }, .most_staged_bytes = 100'000};

enum class Calls { first, later };

/// How long `body` takes on 2 ranks from the moment at which both are in it, if one of them is late: by rank.
std::array<nanoseconds, 2> times_after(nanoseconds lateness, Calls calls, const TestHooks& hooks,
                                       FunctionRef<void(Communicator&)> body) {
  std::array<nanoseconds, 2> ends{};
  nanoseconds begin{};
  on_ranks(
      {1, 1},
      [&](Communicator& comm) {
        CommunicatorAccess::set_test_hooks(comm, &hooks);
        if (calls == Calls::later) body(comm);
        comm.barrier();
        if (comm.rank() == 0) {
          std::this_thread::sleep_for(lateness);
          begin = virtual_time::now();
        }
        body(comm);
        ends[static_cast<std::size_t>(comm.rank())] = virtual_time::now();
        comm.barrier();
        CommunicatorAccess::set_test_hooks(comm, nullptr);
      },
      minutes_to_fail());
  return {ends[0] - begin, ends[1] - begin};
}

/// A rank that waits for a late one goes on as fast as one that has just begun to wait.
void expect_no_delay(const std::string& what, const TestHooks& hooks, FunctionRef<void(Communicator&)> body) {
  if (!virtual_time::is_active() || virtual_time::has_delays()) GTEST_SKIP() << "only virtual time is exact";
  for (const Calls calls : {Calls::first, Calls::later}) {
    const auto soon = times_after(0s, calls, hooks, body);
    const auto late = times_after(30s, calls, hooks, body);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_LE(late[rank].count(), soon[rank].count() + 100'000)
          << (calls == Calls::first ? "first " : "") << what << ", rank " << rank;
    }
  }
}

void reduce(const Communicator& comm, std::size_t count, const ReduceOptions& options = {}) {
  std::vector<float> values(count, 1.0F);
  comm.all_reduce(std::span(values), ReduceOp::sum, options);
  EXPECT_EQ(values.back(), 2.0F);
}

void pass(const Communicator& comm, int source, std::size_t count) {
  std::vector<float> values(count, comm.rank() == source ? 1.0F : 0.0F);
  comm.rank() == source ? comm.send(std::span<const float>(values), 1 - source) : comm.recv(std::span(values), source);
  EXPECT_EQ(values.back(), 1.0F);
}

TEST(LateRank, delays_no_collective_further) {
  expect_no_delay("barrier", {}, [](Communicator& comm) { comm.barrier(); });
  expect_no_delay("barrier_async", {}, [](Communicator& comm) { comm.barrier_async().wait(); });
  expect_no_delay("all_reduce", {}, [](Communicator& comm) { reduce(comm, 100'000); });
  expect_no_delay("any order", {}, [](Communicator& comm) { reduce(comm, 100'000, {.order = Order::any}); });
  expect_no_delay("staging", hidden_memory, [](Communicator& comm) { reduce(comm, 100'000); });
  expect_no_delay("rounds", rounds_of_staging, [](Communicator& comm) { reduce(comm, 300'000); });
}

TEST(LateRank, delays_no_message_further) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{1'000'000}}) {
    for (const TestHooks& hooks : {TestHooks{}, hidden_memory}) {
      expect_no_delay("late sender", hooks, [count](Communicator& comm) { pass(comm, 0, count); });
      expect_no_delay("late receiver", hooks, [count](Communicator& comm) { pass(comm, 1, count); });
    }
  }
}

/// While one thread of rank 1 waits for rank 0 in a barrier, another one posts receives, which the first one completes.
TEST(LateRank, delays_no_operation_that_another_thread_posts) {
  if (!virtual_time::is_active() || virtual_time::has_delays()) GTEST_SKIP() << "only virtual time is exact";
  constexpr std::size_t count = 3;
  std::array<nanoseconds, count> posted{};
  std::array<nanoseconds, count> ends{};
  on_ranks(
      {1, 1},
      [&](Communicator& comm) {
        pass(comm, 0, 1);
        pass(comm, 1, 1);
        std::vector<float> values(count);
        if (comm.rank() == 0) {
          for (std::size_t k = 0; k < count; ++k) {
            comm.send(std::span<const float>(values).subspan(k, 1), 1);
            ends[k] = virtual_time::now();
          }
          comm.barrier();
          return;
        }
        const std::jthread poster([&] {
          for (std::size_t k = 0; k < count; ++k) {
            std::this_thread::sleep_for(10s);
            posted[k] = virtual_time::now();
            Request receive = comm.recv_async(std::span(values).subspan(k, 1), 0);
            std::this_thread::sleep_for(10s);
            receive.wait();
          }
        });
        comm.barrier();
      },
      minutes_to_fail());
  for (std::size_t k = 0; k < count; ++k) {
    EXPECT_GE(ends[k], posted[k]);
    EXPECT_LT(ends[k] - posted[k], 100us);
  }
}

}  // namespace
}  // namespace lockstep::test
