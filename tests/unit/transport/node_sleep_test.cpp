// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/node_sleep.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;

TEST(NodeSleep, ends_when_the_time_is_over) {
  const auto groups = make_thread_groups(2);
  NodeSleep sleep(*groups[1]);
  sleep.announce();
  EXPECT_FALSE(sleep.sleep(1ms));
}

TEST(NodeSleep, does_not_miss_a_wake_that_comes_before_it) {
  const auto groups = make_thread_groups(3);
  NodeSleep one(*groups[1]);
  NodeSleep other(*groups[2]);
  groups[0]->wake();  // no thread sleeps
  one.announce();
  other.announce();
  groups[0]->wake();
  EXPECT_TRUE(one.sleep(1h));
  EXPECT_TRUE(other.sleep(1h));
  one.announce();
  EXPECT_FALSE(one.sleep(1ms));  // the wake before the announcement is over
}

TEST(NodeSleep, is_announced_until_a_rank_wakes_it) {
  const auto groups = make_thread_groups(2);
  NodeSleep sleep(*groups[1]);
  sleep.announce();
  EXPECT_FALSE(sleep.sleep(1ms));
  groups[0]->wake();
  EXPECT_TRUE(sleep.sleep(1h));
  groups[0]->wake();  // it has no thread to wake any more
  sleep.announce();
  EXPECT_FALSE(sleep.sleep(1ms));
}

TEST(NodeSleep, ends_when_another_thread_wakes_it) {
  const auto groups = make_thread_groups(2);
  std::atomic<int> woken{0};
  {
    std::vector<std::jthread> sleepers;
    for (int i = 0; i < 2; ++i) {  // two threads of one rank
      sleepers.emplace_back([&] {
        NodeSleep sleep(*groups[0]);
        sleep.announce();
        ++woken;
        if (sleep.sleep(1h)) ++woken;
      });
    }
    while (woken < 2) std::this_thread::sleep_for(1ms);
    groups[1]->wake();
  }
  EXPECT_EQ(woken, 4);
}

TEST(NodeSleep, of_this_rank_alone_ends) {
  const auto groups = make_thread_groups(2);
  NodeSleep own(*groups[0]);
  NodeSleep other(*groups[1]);
  own.announce();
  other.announce();
  groups[0]->wake_own();
  EXPECT_TRUE(own.sleep(1h));
  EXPECT_FALSE(other.sleep(1ms));
}

TEST(NodeSleep, leaves_the_memory_of_a_group_alone_that_its_rank_has_left) {
  const auto groups = make_thread_groups(2);
  groups[0]->depart(Departure::orderly);
  NodeSleep sleep(*groups[0]);
  sleep.announce();
  EXPECT_EQ(groups[1]->control_block(0).any_sleep.value.load(), 0U);
  groups[0]->wake_own();
  EXPECT_EQ(groups[1]->control_block(0).sleep.wakes.load(), 0U);
}

}  // namespace
}  // namespace lockstep::detail
