// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/node_failures.hpp"

#include "transport/shm/node_group.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;

Failure failure_named(const std::string& text) { return {Code::deadline_exceeded, text, {3, -1, "barrier", 7}}; }

/// The ends of the ranks of one node.
struct NodeOfRanks {
  explicit NodeOfRanks(int ranks) : groups(make_thread_groups(ranks)) {
    for (const auto& group : groups) ends.emplace_back(group.get());
  }
  std::vector<std::unique_ptr<NodeGroup>> groups;
  std::deque<NodeFailures> ends;
};

TEST(NodeFailures, shows_the_failure_from_the_operation_on_that_its_rank_does_not_complete) {
  NodeOfRanks node(2);
  EXPECT_FALSE(node.ends[1].find(0, 100));
  EXPECT_EQ(node.ends[0].publish(0, {5, failure_named("gone")}).failure.text, "gone");
  EXPECT_FALSE(node.ends[1].find(0, 4));
  const auto found = node.ends[1].find(0, 5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "gone");
  EXPECT_EQ(found->code, Code::deadline_exceeded);
  EXPECT_EQ(found->context.rank, 3);
  EXPECT_EQ(found->context.operation, "barrier");
  EXPECT_EQ(found->context.sequence, 7);
  EXPECT_FALSE(node.ends[1].find(1, 5));
}

TEST(NodeFailures, gives_all_ranks_the_failure_that_was_published_first) {
  NodeOfRanks node(3);
  static_cast<void>(node.ends[2].publish(0, {5, failure_named("first")}));
  const EpochEnd second = node.ends[0].publish(0, {4, failure_named("second")});
  EXPECT_EQ(second.failure.text, "first");
  EXPECT_EQ(second.sequence, 4);
  EXPECT_EQ(node.ends[2].publish(0, {5, failure_named("again")}).failure.text, "first");
  EXPECT_EQ(node.ends[0].publish(1, {0, failure_named("of the next epoch")}).failure.text, "of the next epoch");
}

TEST(NodeFailures, keeps_the_last_failure_for_a_rank_that_is_behind) {
  NodeOfRanks node(3);
  static_cast<void>(node.ends[1].publish(0, {5, failure_named("first")}));
  static_cast<void>(node.ends[0].publish(0, {5, failure_named("other")}));
  static_cast<void>(node.ends[0].publish(1, {0, failure_named("second")}));
  EXPECT_EQ(node.ends[2].find(0, 5)->text, "first");
  // rank 1 has gone on by two epochs; what rank 0 has written about epoch 0 is still there
  static_cast<void>(node.ends[1].publish(1, {0, failure_named("x")}));
  static_cast<void>(node.ends[1].publish(2, {0, failure_named("third")}));
  EXPECT_EQ(node.ends[2].find(0, 5)->text, "first");
}

TEST(NodeFailures, without_a_group_knows_nothing) {
  NodeFailures alone(nullptr);
  EXPECT_EQ(alone.publish(0, {5, failure_named("own")}).failure.text, "own");
  EXPECT_FALSE(alone.find(0, 5));
}

TEST(NodeFailures, gives_one_failure_to_ranks_that_fail_at_the_same_time) {
  constexpr int ranks = 4;
  constexpr std::uint64_t epochs = 200;
  NodeOfRanks node(ranks);
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<std::string> texts(ranks);
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          const auto at = static_cast<std::size_t>(rank);
          texts[at] = node.ends[at].publish(epoch, {0, failure_named(std::to_string(rank))}).failure.text;
        });
      }
    }
    for (const std::string& text : texts) EXPECT_EQ(text, texts[0]) << "epoch " << epoch;
    EXPECT_EQ(node.ends[0].find(epoch, 0)->text, texts[0]);
  }
}

}  // namespace
}  // namespace lockstep::test
