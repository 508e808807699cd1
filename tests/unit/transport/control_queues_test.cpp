// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/control_queues.hpp"
#include "transport/shm/node_sleep.hpp"

#include <lockstep/device/arena.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The next message, with its sender: "0: text"; "none" if none has come.
std::string next(ControlQueues& queues) {
  const auto message = queues.poll();
  if (!message) return "none";
  const auto* const text = reinterpret_cast<const char*>(message->bytes.data());
  return std::to_string(message->source) + ": " + std::string(text, message->bytes.size());
}

std::vector<int> members_of(const NodeGroup& group) {
  std::vector<int> members(static_cast<std::size_t>(group.size()));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

struct Node {
  explicit Node(int size) : groups(make_thread_groups(size)) {
    for (const auto& group : groups) queues.push_back(std::make_unique<ControlQueues>(*group, members_of(*group)));
  }
  std::vector<std::unique_ptr<NodeGroup>> groups;
  std::vector<std::unique_ptr<ControlQueues>> queues;
};

TEST(ControlQueues, deliver_the_messages_of_each_rank_in_order) {
  const Node node(3);
  EXPECT_EQ(next(*node.queues[2]), "none");
  node.queues[0]->post(2, bytes_of("a"));
  node.queues[0]->post(2, bytes_of(""));
  node.queues[0]->post(1, bytes_of("for 1"));
  node.queues[0]->post(2, bytes_of("b"));
  EXPECT_TRUE(node.queues[0]->have_left());
  EXPECT_EQ(next(*node.queues[2]), "0: a");
  EXPECT_EQ(next(*node.queues[2]), "0: ");
  EXPECT_EQ(next(*node.queues[2]), "0: b");
  EXPECT_EQ(next(*node.queues[2]), "none");
  node.queues[1]->post(2, bytes_of("c"));
  EXPECT_EQ(next(*node.queues[2]), "1: c");
  EXPECT_EQ(next(*node.queues[1]), "0: for 1");
  EXPECT_EQ(next(*node.queues[0]), "none");
}

TEST(ControlQueues, are_those_of_the_ranks_of_the_node) {
  const auto groups = make_thread_groups(2);
  ControlQueues third(*groups[0], {3, 7});
  ControlQueues seventh(*groups[1], {3, 7});
  for (int rank = 0; rank < 9; ++rank) EXPECT_EQ(third.reach(rank), rank == 3 || rank == 7) << rank;
  third.post(7, bytes_of("a"));
  EXPECT_EQ(next(seventh), "3: a");
}

TEST(ControlQueues, deliver_messages_that_are_larger_than_a_block) {
  const Node node(2);
  for (const std::size_t bytes : {ControlQueueBlock::capacity, ControlQueueBlock::capacity + 1,
                                  3 * ControlQueueBlock::capacity, std::size_t{1} << 20}) {
    std::string text(bytes, 'x');
    for (std::size_t k = 0; k < bytes; k += 100) text[k] = static_cast<char>('a' + k / 100 % 26);
    node.queues[0]->post(1, bytes_of(text));
    node.queues[0]->post(1, bytes_of("small"));
    EXPECT_TRUE(next(*node.queues[1]) == "0: " + text) << bytes;
    EXPECT_EQ(next(*node.queues[1]), "0: small");
  }
}

TEST(ControlQueues, deliver_what_a_rank_has_posted_before_it_left) {
  Node node(2);
  node.queues[0]->post(1, bytes_of("last words"));
  node.groups[0]->depart(Departure::orderly);
  node.queues[0].reset();
  node.groups[0].reset();
  EXPECT_EQ(next(*node.queues[1]), "0: last words");
  node.queues[1]->post(0, bytes_of("no rank reads this"));
}

TEST(ControlQueues, deliver_nothing_to_a_rank_that_has_left) {
  const Node node(2);
  node.queues[0]->post(1, bytes_of("too late"));
  node.groups[1]->depart(Departure::orderly);
  EXPECT_EQ(next(*node.queues[1]), "none");
}

TEST(ControlQueues, pass_many_messages_between_threads) {
  Node node(3);
  constexpr int count = 2000;
  std::atomic<bool> has_failed{false};
  const auto talk = [&](int rank) {
    ControlQueues& own = *node.queues[static_cast<std::size_t>(rank)];
    std::vector<int> received(3);
    int sent = 0;
    const auto lacks = [&](int other) { return received[static_cast<std::size_t>(other % 3)] < count; };
    while (!has_failed && (sent < count || lacks(rank + 1) || lacks(rank + 2))) {
      if (sent < count) {
        for (int other = 0; other < 3; ++other) {
          if (other == rank) continue;
          const std::vector<int> message(sent % 7 == 0 ? 3000 : 1, sent);
          own.post(other, std::as_bytes(std::span(message)));
        }
        ++sent;
      }
      const auto message = own.poll();
      if (!message) {
        std::this_thread::yield();
        continue;
      }
      int& expected = received[static_cast<std::size_t>(message->source)];
      const std::vector<int> all(expected % 7 == 0 ? 3000 : 1, expected);
      const auto bytes = std::as_bytes(std::span(all));
      if (!std::equal(message->bytes.begin(), message->bytes.end(), bytes.begin(), bytes.end())) {
        ADD_FAILURE() << "message " << expected << " of " << message->source << " to " << rank;
        has_failed = true;
      }
      ++expected;
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) threads.emplace_back(talk, rank);
  for (std::thread& thread : threads) thread.join();
}

/// A group of two members that are both this process, each with its own memory.
struct Processes {
  Processes() {
    const std::array<NodeIntroduction, 2> members{offers[0].introduction(), offers[1].introduction()};
    for (std::size_t rank = 0; rank < 2; ++rank) {
      if (!offers[rank].open(static_cast<int>(rank), members)) return;
    }
    for (ProcessGroupOffer& offer : offers) groups.push_back(offer.take());
    for (const auto& group : groups) queues.push_back(std::make_unique<ControlQueues>(*group, members_of(*group)));
  }
  std::array<ProcessGroupOffer, 2> offers{ProcessGroupOffer(true), ProcessGroupOffer(true)};
  std::vector<std::unique_ptr<NodeGroup>> groups;
  std::vector<std::unique_ptr<ControlQueues>> queues;
};

TEST(ControlQueues, use_the_same_blocks_again) {
  Processes processes;
  if (processes.queues.empty()) GTEST_SKIP() << processes.offers[0].why_not();
  const auto pass = [&](int messages) {
    for (int k = 0; k < messages; ++k) {
      processes.queues[0]->post(1, bytes_of("message"));
      ASSERT_EQ(next(*processes.queues[1]), "0: message");
    }
  };
  pass(3);
  const std::size_t used = arena_status().used_bytes;
  pass(1000);
  EXPECT_EQ(arena_status().used_bytes, used);
}

/// The end of the first of two ranks, which are both this thread, with an arena that may be full.
class GroupWithArena final : public NodeGroup {
 public:
  GroupWithArena(const std::vector<Member>& members, const bool& is_full)
      : NodeGroup(0, members, std::make_shared<const Levels>(2, std::span<const NodePlace>())), is_full_(is_full) {}
  void depart(Departure) noexcept override {}
  Departure departure_of(int) const noexcept override { return Departure::none; }
  NodeAddress address_of(const void* data, std::size_t) const noexcept override {
    return static_cast<NodeAddress>(reinterpret_cast<std::uintptr_t>(data));
  }
  std::uint64_t unshares() const noexcept override { return 0; }
  bool can_unshare() const noexcept override { return false; }
  void unshare(std::span<const std::span<std::byte>>) noexcept override {}
  std::byte* resolve(int, NodeAddress address, std::size_t) const override {
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): made from a pointer
  }
  NodeMemory allocate(std::size_t bytes) const override {
    if (is_full_) return {};
    return {::operator new(bytes, alignment), bytes,
            [](void* data, std::size_t) { ::operator delete(data, alignment); }};
  }

 private:
  static constexpr std::align_val_t alignment{control_block_alignment};
  const bool& is_full_;
};

TEST(ControlQueues, keep_messages_until_the_arena_has_memory_for_them) {
  const auto groups = make_thread_groups(2);
  bool is_full = true;
  GroupWithArena group({{&groups[0]->control_block(0)}, {&groups[0]->control_block(1)}}, is_full);
  ControlQueues sender(group, {0, 1});
  ControlQueues receiver(*groups[1], {0, 1});
  const std::string first(2 * ControlQueueBlock::capacity, 'x');
  sender.post(1, bytes_of(first));  // the first messages need no memory
  EXPECT_TRUE(next(receiver) == "0: " + first);
  const std::string second(6 * ControlQueueBlock::capacity, 'y');
  sender.post(1, bytes_of(second));
  sender.post(1, bytes_of("third"));
  EXPECT_FALSE(sender.have_left());
  EXPECT_EQ(next(receiver), "none");
  is_full = false;
  EXPECT_TRUE(sender.have_left());
  EXPECT_TRUE(next(receiver) == "0: " + second);
  EXPECT_EQ(next(receiver), "0: third");

  is_full = true;
  // as many as need blocks that are used again
  for (int k = 0; k < 100; ++k) {
    sender.post(1, bytes_of("another"));
    EXPECT_EQ(next(receiver), "0: another");
  }
  const std::string large(20 * ControlQueueBlock::capacity, 'x');
  sender.post(1, bytes_of(large));
  sender.post(1, bytes_of("after it"));
  EXPECT_FALSE(sender.have_left());
  EXPECT_EQ(next(receiver), "none");
  is_full = false;
  EXPECT_EQ(next(sender), "none");  // a poll sends what waits
  EXPECT_TRUE(next(receiver) == "0: " + large);
  EXPECT_EQ(next(receiver), "0: after it");
}

TEST(ControlQueues, wake_the_ranks_that_sleep) {
  const Node node(2);
  NodeSleep sleep(*node.groups[1]);
  sleep.announce();
  node.queues[0]->post(1, bytes_of("wake up"));
  EXPECT_TRUE(sleep.sleep(std::chrono::hours(1)));
}

}  // namespace
}  // namespace lockstep::test
