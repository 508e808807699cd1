// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The order of turns and the clock: histories, deadlines, deadlocks.

#include "virtual_time/virtual_time.hpp"

#include "base/pause.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using virtual_time::VirtualRun;

/// Real time, also in a run.
std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(VirtualTime, sleeps_an_hour_in_no_time) {
  const auto begin = processor_time();
  VirtualRun run;
  const auto before = Clock::now();
  const auto wall = std::chrono::system_clock::now();
  std::this_thread::sleep_for(1h);
  EXPECT_EQ(Clock::now() - before, 1h);
  EXPECT_EQ(std::chrono::system_clock::now() - wall, 1h);
  EXPECT_EQ(virtual_time::now(), 1h);
  EXPECT_LT(processor_time() - begin, 10s);
}

TEST(VirtualTime, fires_a_deadline_exactly_at_its_time) {
  VirtualRun run;
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  EXPECT_EQ(condition.wait_for(lock, 1500ms), std::cv_status::timeout);
  EXPECT_EQ(virtual_time::now(), 1500ms);
  EXPECT_EQ(condition.wait_until(lock, std::chrono::system_clock::now() + 250ms), std::cv_status::timeout);
  EXPECT_EQ(virtual_time::now(), 1750ms);
}

TEST(VirtualTime, wakes_in_the_order_of_deadlines) {
  VirtualRun run;
  std::vector<int> order;
  {
    std::vector<std::jthread> threads;
    for (const int delay : {30, 10, 20}) {
      threads.emplace_back([&order, delay] {
        std::this_thread::sleep_for(std::chrono::milliseconds(delay));
        order.push_back(delay);
      });
    }
  }
  EXPECT_EQ(order, (std::vector{10, 20, 30}));
  EXPECT_EQ(virtual_time::now(), 30ms);
}

/// Threads that take a lock, wait for each other, and pause.
void run_some_threads(std::vector<int>& order) {
  std::mutex mutex;
  std::condition_variable condition;
  int next = 0;
  std::atomic<int> done{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        std::this_thread::yield();
        std::unique_lock lock(mutex);
        condition.wait(lock, [&] { return next % 4 == i; });
        ++next;
        condition.notify_all();
      }
      order.push_back(i);
      ++done;
    });
  }
  while (done < 4) std::this_thread::yield();
}

std::pair<std::uint64_t, std::vector<int>> history_of(const virtual_time::Options& options) {
  std::vector<int> order;
  VirtualRun run(options);
  run_some_threads(order);
  EXPECT_EQ(run.end(), 0);
  return {run.history(), order};
}

TEST(VirtualTime, repeats_a_history_a_thousand_times) {
  std::set<std::uint64_t> histories;
  for (int i = 0; i < 1000; ++i) histories.insert(history_of({.seed = 7, .choose = {}}).first);
  EXPECT_EQ(histories.size(), 1);
}

TEST(VirtualTime, of_another_seed_has_another_history) {
  std::set<std::uint64_t> histories;
  for (std::uint64_t seed = 0; seed < 20; ++seed) histories.insert(history_of({.seed = seed, .choose = {}}).first);
  EXPECT_GT(histories.size(), 10);
}

/// Whether another thread has seen a value that this thread sets under a lock and replaces under the same lock at once.
bool is_seen_between_two_locks(const virtual_time::Options& options) {
  VirtualRun run(options);
  EXPECT_EQ(virtual_time::has_delays(), options.seed != 0 && options.delays_one_in != 0);
  std::mutex mutex;
  int value = 0;
  bool is_seen = false;
  {
    const auto set = [&](int to) {
      const std::scoped_lock lock(mutex);
      value = to;
    };
    const std::jthread other([&] {
      for (int i = 0; i < 10; ++i) {
        const std::scoped_lock lock(mutex);
        is_seen = is_seen || value == 1;
      }
    });
    set(1);
    set(2);
  }
  return is_seen;
}

TEST(VirtualTime, delays_threads_at_locks_if_asked_to) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    EXPECT_FALSE(is_seen_between_two_locks({.seed = seed, .choose = {}}));
    if (is_seen_between_two_locks({.seed = seed, .delays_one_in = 2, .choose = {}})) ++seen;
    // no signal is lost, and the history is still that of the seed
    const auto history = history_of({.seed = seed, .delays_one_in = 2, .choose = {}}).first;
    EXPECT_EQ(history, history_of({.seed = seed, .delays_one_in = 2, .choose = {}}).first);
  }
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, 40);
  EXPECT_FALSE(virtual_time::has_delays());
}

/// The seeds that the first thread of a run and two others get.
std::vector<std::uint64_t> seeds_of_threads(std::uint64_t seed) {
  VirtualRun run({.seed = seed, .choose = {}});
  std::vector<std::uint64_t> seeds{virtual_time::seed_of_thread()};
  for (int i = 0; i < 2; ++i) std::jthread([&seeds] { seeds.push_back(virtual_time::seed_of_thread()); });
  return seeds;
}

TEST(VirtualTime, gives_each_thread_a_seed_that_is_the_same_in_each_run) {
  std::set<std::uint64_t> all;
  for (const std::uint64_t seed : {0U, 1U, 17U}) {
    const auto seeds = seeds_of_threads(seed);
    EXPECT_EQ(seeds, seeds_of_threads(seed));
    all.insert(seeds.begin(), seeds.end());
  }
  EXPECT_EQ(all.size(), 9U);
  EXPECT_NE(virtual_time::seed_of_thread(), virtual_time::seed_of_thread());
}

TEST(VirtualTime, asks_a_function_for_each_choice) {
  std::size_t choices = 0;
  const auto last = [&choices](std::size_t ready) {
    EXPECT_GE(ready, 2);
    ++choices;
    return ready - 1;
  };
  const auto [history, order] = history_of({.seed = 0, .choose = last});
  EXPECT_GT(choices, 0);
  EXPECT_NE(history, history_of({}).first);
}

TEST(VirtualTime, lets_a_thread_that_spins_give_way) {
  VirtualRun run;
  std::atomic<bool> is_set{false};
  std::jthread other([&is_set] {
    std::this_thread::sleep_for(2s);
    is_set = true;
  });
  std::uint32_t pauses = 0;
  while (!is_set) lockstep::detail::yield_core(++pauses);
  EXPECT_GE(virtual_time::now(), 2s);
  EXPECT_LE(virtual_time::now(), 2s + 16ms);
  EXPECT_LT(pauses, 200);  // each pause is twice as long as the one before, up to 16 ms
}

TEST(VirtualTime, lets_a_thread_that_reads_a_clock_give_way) {
  VirtualRun run;
  std::jthread other([] { std::this_thread::sleep_for(1s); });
  const auto end = Clock::now() + 2s;
  while (Clock::now() < end) {}
  EXPECT_GE(virtual_time::now(), 2s);
}

TEST(VirtualTime, stamps_times_of_the_run) {
  VirtualRun run;
  const std::uint64_t before = lockstep::detail::time_stamp();
  EXPECT_NE(before, 0);
  std::this_thread::sleep_for(3ms);
  EXPECT_EQ(lockstep::detail::time_stamp() - before, 3'000'000);
}

TEST(VirtualTime, is_real_outside_of_a_run) {
  EXPECT_FALSE(virtual_time::is_active());
  {
    VirtualRun run;
    EXPECT_TRUE(virtual_time::is_active());
  }
  EXPECT_FALSE(virtual_time::is_active());
  const auto before = Clock::now();
  std::this_thread::sleep_for(1ms);
  EXPECT_GE(Clock::now() - before, 1ms);
}

// ---- failures: in a child process

[[gnu::noinline]] void take_both(std::mutex& first, std::mutex& second) {
  const std::lock_guard outer(first);
  std::this_thread::sleep_for(1ms);
  const std::lock_guard inner(second);
}

TEST(VirtualTimeDeathTest, prints_the_stacks_of_a_deadlock) {
  const auto deadlock = [] {
    VirtualRun run;
    std::mutex first;
    std::mutex second;
    std::jthread one([&] { take_both(first, second); });
    std::jthread two([&] { take_both(second, first); });
  };
  EXPECT_EXIT(
      deadlock(), testing::ExitedWithCode(1),
      "deadlock(.|\n)*thread 0:(.|\n)*pthread_join(.|\n)*thread 1:(.|\n)*take_both(.|\n)*thread 2:(.|\n)*take_both");
}

[[gnu::noinline]] void wait_without_test(std::mutex& mutex, std::condition_variable& condition) {
  std::unique_lock lock(mutex);
  condition.wait(lock);
}

TEST(VirtualTimeDeathTest, finds_a_lost_wake_up) {
  const auto lose = [] {
    VirtualRun run;
    std::mutex mutex;
    std::condition_variable condition;
    condition.notify_one();  // nothing waits yet
    std::jthread other([&] { wait_without_test(mutex, condition); });
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(1), "deadlock(.|\n)*thread 1:(.|\n)*wait_without_test");
}

TEST(VirtualTimeDeathTest, ends_a_run_that_waits_for_ever) {
  const auto wait = [] {
    VirtualRun run({.choose = {}, .longest = 10s});
    for (;;) std::this_thread::sleep_for(1s);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(1), "limit in virtual time, at 10");
}

[[gnu::noinline]] void spin(const std::atomic<bool>& is_set) {
  while (!is_set) {}
}

TEST(VirtualTimeDeathTest, ends_a_run_that_spins_without_a_pause) {
  const auto wait = [] {
    VirtualRun run({.choose = {}, .longest_real = 1s});
    spin(std::atomic<bool>(false));
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(1), "limit in real time(.|\n)*thread 0 runs:(.|\n)*spin");
}

TEST(VirtualTimeDeathTest, refuses_a_function_that_it_does_not_replace) {
  const auto wait = [] {
    VirtualRun run;
    pthread_barrier_t barrier{};
    pthread_barrier_init(&barrier, nullptr, 2);
    pthread_barrier_wait(&barrier);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(1), "pthread_barrier_wait");
}

TEST(VirtualTime, counts_threads_that_have_not_ended) {
  VirtualRun run;
  std::mutex mutex;
  std::condition_variable condition;
  auto* const waiting = new std::thread([&] { wait_without_test(mutex, condition); });  // its stack exists for ever
  waiting->detach();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run.end(), 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("wait_without_test"), std::string::npos);
  delete waiting;
}

TEST(VirtualTime, takes_no_short_run_for_one_that_has_reached_its_limit) {
  for (int k = 0; k < 100'000; ++k) VirtualRun().end();
}

TEST(Groups, get_no_turn_while_they_are_stopped_although_time_goes_on) {
  VirtualRun run;
  std::atomic<int> steps = 0;
  std::jthread member([&] {
    virtual_time::join_group(1);
    for (; steps < 3; ++steps) std::this_thread::sleep_for(1s);
  });
  std::this_thread::sleep_for(1500ms);
  virtual_time::stop_group(1);
  std::this_thread::sleep_for(10s);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(virtual_time::stopped_since(1), 1500ms);
  virtual_time::continue_group(1);
  EXPECT_EQ(virtual_time::stopped_since(1), std::nullopt);
  member.join();
  EXPECT_EQ(virtual_time::now(), 12500ms);  // the sleep that ended during the stop, and one more
}

TEST(Groups, are_those_of_the_creating_thread_and_stop_after_a_number_of_turns) {
  VirtualRun run;
  std::atomic<int> steps = 0;
  virtual_time::stop_group(2, 10);
  std::jthread member([&] {
    virtual_time::join_group(2);
    std::jthread([&] {
      EXPECT_EQ(virtual_time::group(), 2);
      for (; steps < 100; ++steps) virtual_time::preempt();
    }).join();
  });
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(virtual_time::turns_of_group(2), 10);
  EXPECT_LT(steps, 10);
  EXPECT_EQ(virtual_time::stopped_since(2), 0s);
  virtual_time::continue_group(2);
  member.join();
  EXPECT_EQ(steps, 100);
  EXPECT_EQ(virtual_time::group(), 0);
}

TEST(Groups, that_are_stopped_release_a_mutex_for_which_another_group_waits) {
  VirtualRun run;
  std::mutex mutex;
  int steps = 0;
  std::jthread member([&] {
    virtual_time::join_group(4);
    {
      const std::lock_guard lock(mutex);
      virtual_time::stop_group(4);
      steps = 1;
      std::this_thread::sleep_for(1s);
    }
    steps = 2;
  });
  std::this_thread::sleep_for(5s);
  EXPECT_EQ(steps, 0);
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(steps, 1);
    EXPECT_EQ(virtual_time::now(), 6s);
  }
  std::this_thread::sleep_for(5s);
  EXPECT_EQ(steps, 1);
  virtual_time::continue_group(4);
  member.join();
  EXPECT_EQ(steps, 2);
}

TEST(Groups, that_stop_themselves_go_on_where_they_were) {
  VirtualRun run;
  std::jthread member([] {
    virtual_time::join_group(3);
    virtual_time::stop_group(3);
    EXPECT_EQ(virtual_time::now(), 5s);
  });
  std::this_thread::sleep_for(5s);
  virtual_time::continue_group(3);
}

}  // namespace
}  // namespace lockstep::test
