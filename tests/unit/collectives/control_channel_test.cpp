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

/// Receives one heartbeat of operation 0 from each rank.
class HeartbeatsOfAll final : public SilentTransport {
 public:
  explicit HeartbeatsOfAll(int ranks) : SilentTransport(std::vector<int>(static_cast<std::size_t>(ranks), 0)) {
    message_.kind = ControlKind::heartbeat;
  }
  std::optional<ReceivedMessage> poll() override {
    if (++last_ == size()) return std::nullopt;
    return ReceivedMessage{last_, std::as_bytes(std::span(&message_, 1))};
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
