// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/operation_queue.hpp"

#include "unit/collectives/scripted.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace lockstep::detail {
namespace {

class OperationQueues : public testing::Test {
 protected:
  void post() {
    auto operation = scripted();
    queue.enter(*operation, 0);
    queue.push(operation);
    posted.push_back(std::move(operation));
  }
  void finish() {
    EXPECT_EQ(&queue.head(), posted.front().get());
    queue.finish_head(nullptr);
    EXPECT_TRUE(posted.front()->is_done());
    EXPECT_EQ(posted.front().use_count(), 1);
    posted.pop_front();
  }

  std::unique_ptr<Transport> transport = std::move(make_loopback_transports(1, false).front());
  Recorder recorder{"test", *transport, {}};
  OperationQueue queue{"test", recorder};
  std::deque<std::shared_ptr<Operation>> posted;
};

TEST_F(OperationQueues, keep_their_order_while_they_grow_and_shrink) {
  for (int round = 0; round < 100; ++round) {
    for (int k = 0; k < round % 23; ++k) post();
    for (int k = 0; k < round % 19 && !posted.empty(); ++k) finish();
    EXPECT_EQ(queue.is_empty(), posted.empty());
  }
  const std::int64_t completed = queue.completed();
  const auto left = static_cast<std::int64_t>(posted.size());
  EXPECT_GT(left, 0);
  while (!posted.empty()) finish();
  EXPECT_TRUE(queue.is_empty());
  EXPECT_EQ(queue.completed(), completed + left);
}

TEST_F(OperationQueues, need_no_more_room_if_they_never_become_empty) {
  for (int k = 0; k < 3; ++k) post();
  for (int k = 0; k < 100'000; ++k) {
    post();
    finish();
  }
  EXPECT_EQ(queue.sequence(), 100'000);
  EXPECT_LE(queue.capacity(), 16U);
}

TEST_F(OperationQueues, fail_all_operations_of_an_epoch) {
  for (int k = 0; k < 5; ++k) post();
  finish();
  const auto error = std::make_shared<const Error>(Code::unavailable, "no network");
  queue.fail_epoch(0, error);
  EXPECT_TRUE(queue.is_empty());
  for (const auto& each : posted) EXPECT_EQ(each->error(), error);
}

}  // namespace
}  // namespace lockstep::detail
