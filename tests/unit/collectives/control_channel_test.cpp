// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/engine/control_channel.hpp"

#include "support/processor_time.hpp"
#include "support/silent_transport.hpp"
#include "transport/loopback/loopback_transport.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;

TEST(ControlChannel, knows_for_which_operations_heartbeats_have_come) {
  const auto ends = make_loopback_transports(3, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  EXPECT_FALSE(channels[0].has_heartbeat(0, 0));
  channels[1].send_heartbeat(0, 5, {});
  channels[0].poll();
  EXPECT_TRUE(channels[0].has_heartbeat(0, 5));
  EXPECT_TRUE(channels[0].has_heartbeat(0, 4));  // or a later one
  EXPECT_FALSE(channels[0].has_heartbeat(0, 6));
  EXPECT_FALSE(channels[0].has_heartbeat(1, 5));
  channels[2].send_heartbeat(0, 6, {});  // is one operation ahead
  channels[0].poll();
  EXPECT_TRUE(channels[0].has_heartbeat(0, 5));
  EXPECT_TRUE(channels[0].has_heartbeat(0, 6));
  EXPECT_FALSE(channels[0].has_heartbeat(0, 7));
}

TEST(ControlChannel, tells_a_rank_that_waits_in_an_ended_epoch_how_it_has_ended) {
  const auto ends = make_loopback_transports(2, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  channels[1].note_end(0, {3, {Code::unavailable, "rank 7 has died", {7, -1, "barrier", 3}}});
  channels[1].enter_epoch(1);
  channels[0].send_heartbeat(0, 3, {});
  channels[1].poll();
  channels[0].poll();
  EXPECT_EQ(channels[0].abort_record(0, 2), nullptr);
  ASSERT_NE(channels[0].abort_record(0, 3), nullptr);
  EXPECT_EQ(channels[0].abort_record(0, 3)->text, "rank 7 has died");
}

TEST(ControlChannel, tells_a_rank_that_asks_while_this_one_abandons_the_operation_how_the_epoch_has_ended) {
  const auto ends = make_loopback_transports(2, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  channels[0].send_heartbeat(0, 3, {});
  channels[1].begin_abandoning();
  channels[1].poll();
  channels[0].poll();
  EXPECT_EQ(channels[0].abort_record(0, 3), nullptr);
  channels[1].note_end(0, {3, {Code::unavailable, "rank 7 has died", {7, -1, "barrier", 3}}});
  channels[1].enter_epoch(1);
  channels[1].poll();
  channels[0].poll();
  ASSERT_NE(channels[0].abort_record(0, 3), nullptr);
  EXPECT_EQ(channels[0].abort_record(0, 3)->text, "rank 7 has died");
}

TEST(ControlChannel, tells_a_rank_of_a_later_epoch_where_this_one_waits) {
  const auto ends = make_loopback_transports(2, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  channels[1].note_end(0, {3, {Code::unavailable, "rank 7 has died", {7, -1, "barrier", 3}}});
  channels[1].enter_epoch(1);
  channels[1].send_heartbeat(1, 0, {});
  channels[0].poll();
  channels[0].send_status(0, 5, {.operation = "operation #2 of part"});
  channels[1].poll();
  ASSERT_NE(channels[1].status(0, 1, 0), nullptr);
  EXPECT_EQ(channels[1].status(0, 1, 0)->operation, "operation #2 of part");
  EXPECT_EQ(channels[1].status(0, 1, 1), nullptr);
}

TEST(ControlChannel, tells_for_which_ranks_of_a_larger_communicator_a_rank_waits) {
  const auto ends = make_loopback_transports(2, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  channels[1].send_heartbeat(0, 0, {});
  channels[0].poll();
  channels[0].send_status(0, 0, {.operation = "operation #2 of world", .awaited = {5, 1}});
  channels[1].poll();
  ASSERT_NE(channels[1].status(0, 0, 0), nullptr);
  EXPECT_EQ(channels[1].status(0, 0, 0)->awaited, (std::vector{5, 1}));
}

TEST(ControlChannel, knows_for_whom_a_rank_of_an_earlier_epoch_waits) {
  const auto ends = make_loopback_transports(3, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  channels[1].send_heartbeat(0, 2, {.awaited = {2}});
  channels[0].poll();
  channels[0].note_end(0, {3, {Code::unavailable, "rank 7 has died", {7, -1, "barrier", 3}}});
  channels[0].enter_epoch(1);
  channels[0].begin_operation();
  EXPECT_FALSE(channels[0].responds(1, 1, 0));  // it may have completed that operation
  channels[1].send_heartbeat(0, 2, {.awaited = {2}});
  channels[0].poll();
  EXPECT_TRUE(channels[0].responds(1, 1, 0));
  const auto awaited = channels[0].awaited_by(1, 1, 0);
  EXPECT_EQ(std::vector(awaited.begin(), awaited.end()), std::vector{2});
  EXPECT_FALSE(channels[0].has_heartbeat_of(1, 1, 0));  // it has not come here
  EXPECT_FALSE(channels[0].has_come(1, 1, 0));
}

TEST(ControlChannel, tells_with_a_departure_how_the_epoch_before_has_ended) {
  const Failure death{Code::unavailable, "rank 7 has died", {7, -1, "barrier", 3}};
  const Failure departure{Code::unavailable, "rank 1 has left", {1, -1, "barrier", 0}, Ends::communicator_here};
  for (const bool has_completed_operations : {false, true}) {
    const auto ends = make_loopback_transports(2, false);
    std::deque<ControlChannel> channels;
    for (const auto& end : ends) channels.emplace_back(*end);
    channels[1].note_end(0, {3, death});
    channels[1].enter_epoch(1);
    channels[1].send_leave(0, 1, {has_completed_operations ? 1 : 0, departure});
    channels[0].poll();
    ASSERT_EQ(channels[0].gone_ranks().size(), 1U);
    EXPECT_TRUE(channels[0].gone_ranks()[0].has_left);
    EXPECT_EQ(channels[0].gone_ranks()[0].epoch, 1U);
    // after an operation of the new epoch, all ranks know
    EXPECT_EQ(channels[0].abort_record(0, 3) != nullptr, !has_completed_operations);
  }
}

TEST(ControlChannel, keeps_a_loss_of_an_epoch_that_has_ended_with_another_failure) {
  const auto ends = make_loopback_transports(2, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  channels[0].note_end(0, {3, {Code::deadline_exceeded, "timed out", {}}});
  channels[0].enter_epoch(1);
  channels[1].send_abort(0, {3, {Code::unavailable, "thrown", {}}});
  channels[0].poll();
  EXPECT_FALSE(channels[0].late_loss());
  channels[1].send_abort(0, {3, {Code::unavailable, "rank 7 has died", {}, Ends::communicator}});
  channels[0].poll();
  ASSERT_TRUE(channels[0].late_loss());
  EXPECT_EQ(channels[0].late_loss()->text, "rank 7 has died");
}

TEST(ControlChannel, keeps_a_loss_of_an_operation_to_which_this_rank_does_not_come) {
  const auto ends = make_loopback_transports(2, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  channels[1].send_abort(0, {3, {Code::unavailable, "thrown", {}}});
  channels[1].send_abort(0, {4, {Code::unavailable, "rank 7 has died", {}, Ends::communicator}});
  channels[0].poll();
  ASSERT_NE(channels[0].abort_record(0, 4), nullptr);
  EXPECT_EQ(channels[0].abort_record(0, 4)->text, "thrown");
  EXPECT_FALSE(channels[0].late_loss());
  channels[0].note_end(0, {3, {Code::unavailable, "thrown", {}}});
  channels[0].enter_epoch(1);
  ASSERT_TRUE(channels[0].late_loss());
  EXPECT_EQ(channels[0].late_loss()->text, "rank 7 has died");
}

TEST(ControlChannel, knows_which_processes_have_ended_according_to_others) {
  const auto ends = make_loopback_transports(2, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  channels[0].note_end(0, {3, {Code::deadline_exceeded, "timed out", {}}});
  channels[0].enter_epoch(1);
  channels[1].send_death(0, 3, 7, "rank 7 has died");
  channels[0].poll();
  ASSERT_EQ(channels[0].gone_ranks().size(), 1U);
  EXPECT_FALSE(channels[0].gone_ranks()[0].has_left);
  EXPECT_EQ(channels[0].gone_ranks()[0].rank, 7);
  EXPECT_EQ(channels[0].gone_ranks()[0].text, "rank 7 has died");
  EXPECT_EQ(channels[0].gone_ranks()[0].sequence, 3);
  EXPECT_EQ(channels[0].abort_record(0, 3), nullptr);
}

TEST(ControlChannel, counts_the_answers_to_a_probe) {
  using Since = ControlChannel::Since;
  const auto ends = make_loopback_transports(3, false);
  std::deque<ControlChannel> channels;
  for (const auto& end : ends) channels.emplace_back(*end);
  for (const std::size_t rank : {1U, 2U}) channels[rank].send_heartbeat(0, 5, {});
  channels[0].poll();
  channels[0].begin_probe();
  channels[0].send_heartbeat(0, 5, {.is_probe = true});
  EXPECT_FALSE(channels[1].is_probed());
  channels[1].poll();
  EXPECT_TRUE(channels[1].is_probed());
  channels[1].send_heartbeat(0, 5, {.awaited = {2}});
  EXPECT_FALSE(channels[1].is_probed());
  channels[0].poll();
  for (const int rank : {1, 2}) {
    EXPECT_TRUE(channels[0].has_heartbeat_of(rank, 0, 5));
    EXPECT_EQ(channels[0].has_heartbeat_of(rank, 0, 5, Since::probe), rank == 1);
    EXPECT_EQ(channels[0].responds(rank, 0, 5, Since::probe), rank == 1);
  }
  EXPECT_EQ(channels[0].awaited_by(1, 0, 5, Since::probe).size(), 1U);
}

/// Receives one heartbeat of operation 0 from each rank.
class HeartbeatsOfAll final : public SilentTransport {
 public:
  explicit HeartbeatsOfAll(int ranks) : SilentTransport(std::vector<int>(static_cast<std::size_t>(ranks), 0)) {
    message_.kind = ControlKind::heartbeat;
  }
  std::optional<ReceivedMessage> poll() override {
    if (++last_ == size()) return std::nullopt;
    return ReceivedMessage{last_, bytes_of(message_)};
  }

 private:
  ControlMessage message_;
  int last_ = 0;
};

/// The least time that 1000 searches for a heartbeat of a new operation take.
std::chrono::nanoseconds time_of_search(int ranks) {
  HeartbeatsOfAll transport(ranks);
  ControlChannel channel(transport);
  channel.poll();
  EXPECT_TRUE(channel.has_heartbeat_of(ranks - 1, 0, 0));
  EXPECT_TRUE(channel.has_heartbeat(0, 0));
  int found = 0;
  const auto least = least_processor_time(20, [&] {
    for (int poll = 0; poll < 1000; ++poll) found += channel.has_heartbeat(0, 1) ? 1 : 0;
  });
  EXPECT_EQ(found, 0);
  return least;
}

TEST(ControlChannel, looks_for_heartbeats_of_a_new_operation_in_constant_time) {
  // a loop over the ranks would take 1000 times as long for 1000 times as many ranks
  EXPECT_LT(time_of_search(8192), 50 * time_of_search(8));
}

}  // namespace
}  // namespace lockstep::test
