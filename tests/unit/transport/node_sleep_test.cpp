// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/node_sleep.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;

std::uint64_t sleepers(const NodeGroup& group) { return group.control_block(0).sleepers.value.load(); }

TEST(NodeSleep, EndsWhenTheTimeIsOver) {
  const auto groups = make_thread_groups(2);
  NodeSleep sleep(*groups[1]);
  sleep.announce();
  EXPECT_EQ(sleepers(*groups[0]), 1U);
  EXPECT_FALSE(sleep.sleep(1ms));
  sleep.withdraw();
  EXPECT_EQ(sleepers(*groups[0]), 0U);
}

TEST(NodeSleep, DoesNotMissAWakeThatComesBeforeIt) {
  const auto groups = make_thread_groups(3);
  NodeSleep one(*groups[1]);
  NodeSleep other(*groups[2]);
  groups[0]->wake();  // no thread sleeps
  one.announce();
  other.announce();
  groups[0]->wake();
  EXPECT_TRUE(one.sleep(1h));
  EXPECT_TRUE(other.sleep(1h));
  one.withdraw();
  other.withdraw();
  one.announce();
  EXPECT_FALSE(one.sleep(1ms));  // the wake before the announcement is over
  one.withdraw();
}

TEST(NodeSleep, EndsWhenAnotherThreadWakesIt) {
  const auto groups = make_thread_groups(2);
  std::atomic<bool> has_woken{false};
  {
    const std::jthread sleeper([&] {
      NodeSleep sleep(*groups[0]);
      sleep.announce();
      has_woken = sleep.sleep(1h);
      sleep.withdraw();
    });
    while (sleepers(*groups[1]) == 0) std::this_thread::sleep_for(1ms);
    groups[1]->wake();
  }
  EXPECT_TRUE(has_woken);
}

TEST(NodeSleep, LeavesTheMemoryOfAGroupAloneThatItsRankHasLeft) {
  const auto groups = make_thread_groups(2);
  NodeSleep sleep(*groups[0]);
  sleep.announce();
  groups[0]->depart(Departure::orderly);
  sleep.withdraw();
  EXPECT_EQ(sleepers(*groups[1]), 1U);
  sleep.announce();
  EXPECT_EQ(sleepers(*groups[1]), 1U);
}

}  // namespace
}  // namespace lockstep::detail
