// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are slow at random moments: at every flag that they show to each other.

#include <lockstep/base/error.hpp>

#include "collectives/make_communicator.hpp"
#include "support/collective_cases.hpp"
#include "support/ranks.hpp"
#include "transport/loopback/loopback_transport.hpp"
#include "transport/shm/flag_delay.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace lockstep::test {
namespace {

/// Nothing, a moment, or long enough for others to come two operations further if they could.
void random_delay() {
  thread_local std::minstd_rand random(static_cast<unsigned>(std::hash<std::thread::id>{}(std::this_thread::get_id())));
  switch (random() % 64) {
    case 0: std::this_thread::sleep_for(std::chrono::microseconds(random() % 300)); break;
    case 1:
    case 2:
    case 3: std::this_thread::yield(); break;
    default: break;
  }
}

class Delays : public testing::Test {
 protected:
  void SetUp() override { detail::flag_delay = random_delay; }
  void TearDown() override { detail::flag_delay = nullptr; }
};

TEST_F(Delays, at_flags_change_nothing) {
  for (const auto& counts : {std::vector<int>{1, 1}, {1, 1, 1}, {2, 1, 3}, {1, 1, 1, 1, 1}}) {
    on_ranks(counts, [](Communicator& comm) { check_every_collective(comm); });
  }
}

/// The same where each rank shares memory with some of the others only.
TEST_F(Delays, at_flags_change_nothing_on_several_nodes) {
  for (const auto& leaders : {std::vector<int>{0, 0, 2, 2}, {0, 0, 0, 3}, {0, 1, 1, 3, 3}}) {
    const std::vector<int> counts(leaders.size(), 1);
    auto transports = detail::make_loopback_transports(leaders, true);
    std::vector<std::jthread> threads;
    for (auto& transport : transports) {
      threads.emplace_back([&transport, &counts] {
        Communicator comm = CommunicatorAccess::make(std::move(transport), {}, ReplicaLayout(counts));
        check_every_collective(comm);
        std::minstd_rand sizes(7);  // the same on all ranks
        for (int i = 0; i < 200; ++i) {
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
}

/// Small and large calls in turn: what one rank still reads of a call must outlive what others do in the next.
TEST_F(Delays, at_flags_do_not_mix_neighbouring_calls) {
  on_ranks({1, 1, 1}, [](Communicator& comm) {
    std::minstd_rand sizes(7);  // the same on all ranks
    for (int i = 0; i < 400; ++i) {
      const std::size_t elements = sizes() % 3 == 0 ? 1 + sizes() % 20 : 1 + sizes() % 5000;
      std::vector<std::int64_t> values(elements);
      for (std::size_t k = 0; k < elements; ++k) values[k] = static_cast<std::int64_t>(k) * (comm.rank() + 1) + i;
      comm.all_reduce(std::span(values), ReduceOp::sum);
      for (std::size_t k = 0; k < elements; ++k) ASSERT_EQ(values[k], static_cast<std::int64_t>(k) * 6 + 3 * i);
    }
  });
}

TEST_F(Delays, at_flags_leave_every_rank_with_the_same_failure) {
  for (int round = 0; round < 10; ++round) {
    on_ranks({1, 1, 1}, [&](Communicator& comm) {
      std::vector<float> values(3000, 1.0f);
      comm.all_reduce(std::span(values), ReduceOp::sum);
      if (comm.rank() == round % 3) {
        comm.announce_failure("no more apples");
      } else {
        EXPECT_THROW(comm.all_reduce(std::span(values), ReduceOp::sum), Error);
      }
      values.assign(3000, 1.0f);
      comm.all_reduce(std::span(values), ReduceOp::sum);
      EXPECT_EQ(values[2999], 3.0f);
    });
  }
}

}  // namespace
}  // namespace lockstep::test
