// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/loopback/loopback_transport.hpp"

#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;
using namespace std::chrono_literals;

/// The first byte of the next message; empty if none has arrived.
std::optional<int> next(Transport& transport) {
  const auto message = transport.poll();
  if (!message) return std::nullopt;
  return static_cast<int>(message->bytes.front());
}

void post(Transport& transport, int target, int value) {
  const std::array<std::byte, 1> bytes{static_cast<std::byte>(value)};
  transport.post(target, bytes);
}

TEST(LoopbackHooks, delay_messages_but_keep_those_between_two_ranks_in_order) {
  std::vector<std::chrono::nanoseconds> delays{30ms, 10ms, 20ms};
  LoopbackHooks hooks;
  hooks.delay = [&](int, int) {
    const auto delay = delays.front();
    delays.erase(delays.begin());
    return delay;
  };
  const auto ends = make_loopback_transports({0, 1, 2}, false, hooks);
  const auto begin = std::chrono::steady_clock::now();
  post(*ends[0], 2, 1);  // after 30 ms
  post(*ends[0], 2, 2);  // after 10 ms, but not before the first one
  post(*ends[1], 2, 3);  // after 20 ms
  std::vector<int> values;
  std::map<int, std::chrono::nanoseconds> times;
  while (values.size() < 3) {
    if (const auto value = next(*ends[2])) {
      values.push_back(*value);
      times[*value] = std::chrono::steady_clock::now() - begin;
    }
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GE(times[1], 30ms);
  EXPECT_GE(times[2], times[1]);
  EXPECT_GE(times[3], 20ms);
  if (virtual_time::is_active() && !virtual_time::has_delays()) {  // else the last one may be sent late
    EXPECT_EQ(values, (std::vector<int>{3, 1, 2}));
  }
}

TEST(LoopbackHooks, delay_the_data_of_transfers) {
  LoopbackHooks hooks;
  hooks.delay = [](int, int) { return 20ms; };
  const auto ends = make_loopback_transports({0, 1}, false, hooks);
  const std::array<std::byte, 2> sent{std::byte{7}, std::byte{8}};
  std::array<std::byte, 2> received{};
  const auto begin = std::chrono::steady_clock::now();
  const Transfer receive = ends[1]->receive(0, received);
  EXPECT_TRUE(ends[0]->test(ends[0]->send(1, sent)));
  while (!ends[1]->test(receive)) std::this_thread::sleep_for(1ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
  EXPECT_EQ(received, sent);
}

TEST(LoopbackHooks, let_transfers_match_by_number) {
  EXPECT_FALSE(make_loopback_transports({0, 1})[0]->has_transfers_by_number());
  LoopbackHooks hooks;
  hooks.numbers_transfers = true;
  const auto ends = make_loopback_transports({0, 1}, false, hooks);
  ASSERT_TRUE(ends[0]->has_transfers_by_number());
  std::array<std::array<std::byte, 1>, 3> received{};
  std::vector<Transfer> receives;
  for (int k = 0; k < 3; ++k)
    receives.push_back(ends[1]->receive_by_number(0, k, received[static_cast<std::size_t>(k)]));
  ends[1]->abandon(std::span(receives).subspan(1, 1), {});
  for (const int k : {2, 1, 0}) {
    const std::array<std::byte, 1> sent{static_cast<std::byte>(10 + k)};
    EXPECT_TRUE(ends[0]->test(ends[0]->send_by_number(1, k, sent)));
  }
  EXPECT_TRUE(ends[1]->test(receives[0]));
  EXPECT_TRUE(ends[1]->test(receives[2]));
  EXPECT_EQ(received, (std::array<std::array<std::byte, 1>, 3>{{{std::byte{10}}, {}, {std::byte{12}}}}));
}

TEST(LoopbackHooks, say_which_processes_of_a_node_have_ended) {
  LoopbackHooks hooks;
  hooks.has_ended = [](int observer, int rank) { return observer == 2 && rank == 4; };
  const auto ends = make_loopback_transports({0, 1, 0, 1, 0}, true, hooks);  // ranks 0, 2 and 4 are one node
  for (int observer : {0, 2}) {
    for (int member : {0, 1, 2}) {
      const auto process = ends[static_cast<std::size_t>(observer)]->process_of(member);
      ASSERT_NE(process, nullptr);
      EXPECT_EQ(process->has_ended(), observer == 2 && member == 2);
    }
  }
  EXPECT_EQ(make_loopback_transports(2, true)[0]->process_of(1), nullptr);
}

TEST(NodeGroup, knows_which_of_the_processes_that_it_watches_have_ended) {
  bool has_ended = false;
  LoopbackHooks hooks;
  hooks.has_ended = [&has_ended](int, int rank) { return rank == 1 && has_ended; };
  const auto ends = make_loopback_transports({0, 0, 0}, true, hooks);
  NodeGroup& group = *ends[0]->node_group();
  EXPECT_FALSE(group.has_ended(1));
  group.watch(1, ends[0]->process_of(1));
  EXPECT_FALSE(group.has_ended(1));
  has_ended = true;
  EXPECT_TRUE(group.has_ended(1));
  EXPECT_FALSE(group.has_ended(2));  // nothing is known of it
}

TEST(LoopbackHooks, make_the_node_groups) {
  std::vector<std::size_t> places;
  LoopbackHooks hooks;
  hooks.make_groups = [&places](int size, std::span<const NodePlace> here) {
    places.push_back(here.size());
    return make_thread_groups(size, here);
  };
  const auto ends = make_loopback_transports({0, 0, 2}, true, hooks, {{0, 0}, {0, 1}, {0, 0}});
  EXPECT_EQ(places, (std::vector<std::size_t>{2, 1}));
  EXPECT_NE(ends[0]->local_group(), nullptr);
}

}  // namespace
}  // namespace lockstep::test
