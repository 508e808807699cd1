// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/numbered_queue.hpp"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::detail {
namespace {

TEST(NumberedQueue, has_its_values_by_number) {
  NumberedQueue<std::string> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.find(0), nullptr);
  queue.add(7, "seven");
  queue.add(8, "eight");
  queue.add(11, "eleven");  // 9 and 10 are left out
  EXPECT_EQ(queue.begin(), 7);
  EXPECT_EQ(queue.end(), 12);
  EXPECT_EQ(*queue.find(8), "eight");
  EXPECT_EQ(queue.find(6), nullptr);
  EXPECT_EQ(queue.find(9), nullptr);
  EXPECT_EQ(queue.find(12), nullptr);
}

TEST(NumberedQueue, begins_with_its_oldest_value) {
  NumberedQueue<std::string> queue;
  for (const int number : {0, 1, 2, 5}) queue.add(number, std::to_string(number));
  EXPECT_EQ(queue.take(1), "1");
  EXPECT_EQ(queue.begin(), 0);
  EXPECT_EQ(queue.take(0), "0");
  EXPECT_EQ(queue.begin(), 2);
  EXPECT_EQ(queue.take(2), "2");
  EXPECT_EQ(queue.begin(), 5);
  EXPECT_EQ(queue.take(5), "5");
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.begin(), queue.end());
  queue.add(3'000'000'000, "far");
  EXPECT_EQ(*queue.find(3'000'000'000), "far");
}

TEST(NumberedQueue, takes_the_number_of_the_newest_value_again_when_that_is_gone) {
  NumberedQueue<std::string> queue;
  queue.add(0, "old");
  queue.add(4, "new");
  EXPECT_EQ(queue.take(4), "new");
  EXPECT_EQ(queue.end(), 1);
  queue.add(4, "again");
  EXPECT_EQ(*queue.find(4), "again");
  EXPECT_EQ(*queue.find(0), "old");
}

}  // namespace
}  // namespace lockstep::detail
