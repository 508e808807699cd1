// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/prefetch_queue.hpp"
#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

namespace lockstep::input {
namespace {

using namespace std::chrono_literals;

TEST(Prefetch, gives_items_in_order_and_then_stays_at_the_end) {
  PrefetchQueue<int> queue(3, [i = 0](int& item) mutable { return (item = i++) < 1000; });
  int item = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(queue.pop(item));
    ASSERT_EQ(item, i);
  }
  EXPECT_FALSE(queue.pop(item));
  EXPECT_FALSE(queue.pop(item));
}

TEST(Prefetch, is_at_most_depth_items_ahead_plus_one_in_production) {
  std::atomic<int> made = 0;
  PrefetchQueue<int> queue(2, [&](int& item) { return (item = made++), true; });
  int item = 0;
  for (int taken = 1; taken <= 50; ++taken) {
    ASSERT_TRUE(queue.pop(item));
    std::this_thread::sleep_for(200us);
    ASSERT_LE(made.load(), taken + 2);
  }
}

TEST(Prefetch, rethrows_an_exception_once_and_in_its_place) {
  PrefetchQueue<int> queue(5, [i = 0](int& item) mutable -> bool {
    if (i == 2) throw std::runtime_error("boom");
    item = i++;
    return true;
  });
  int item = 0;
  EXPECT_TRUE(queue.pop(item));
  EXPECT_TRUE(queue.pop(item));
  EXPECT_THROW(static_cast<void>(queue.pop(item)), std::runtime_error);
  EXPECT_FALSE(queue.pop(item));
}

TEST(Prefetch, ends_at_any_moment_without_a_hang) {
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> gone = false;
    {
      PrefetchQueue<std::unique_ptr<int>> queue(1 + static_cast<std::size_t>(i % 3), [&](std::unique_ptr<int>& item) {
        EXPECT_FALSE(gone);
        item = std::make_unique<int>(i);
        return i % 7 != 6;
      });
      std::unique_ptr<int> item;
      for (int k = 0; k < i % 5; ++k) static_cast<void>(queue.pop(item));
      if (i % 4 == 0) std::this_thread::sleep_for(50us);  // the thread waits until the queue has space
    }
    gone = true;
  }
}

TEST(Prefetch, counts_the_time_that_the_consumer_waits) {
  std::atomic<int> begun = 0;
  PrefetchQueue<int> queue(2, [&](int&) {
    ++begun;
    std::this_thread::sleep_for(5ms);
    return true;
  });
  int item = 0;
  EXPECT_TRUE(queue.pop(item));
  if (virtual_time::is_active() && !virtual_time::has_delays()) {
    EXPECT_EQ(queue.waited(), 5ms);
  }
  const auto waited = queue.waited();
  while (begun < 3) std::this_thread::sleep_for(1ms);  // the second item is there
  EXPECT_TRUE(queue.pop(item));
  EXPECT_EQ(queue.waited(), waited);
}

}  // namespace
}  // namespace lockstep::input
