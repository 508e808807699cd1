// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What the C library offers for threads, in a run.

#include "virtual_time/virtual_time.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using virtual_time::VirtualRun;

TEST(VirtualThreads, hand_a_mutex_on) {
  VirtualRun run;
  std::timed_mutex mutex;
  std::unique_lock held(mutex);
  std::jthread other([&mutex] {
    EXPECT_FALSE(mutex.try_lock_for(10ms));
    EXPECT_EQ(virtual_time::now(), 10ms);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(virtual_time::now(), 20ms);
  });
  std::this_thread::sleep_for(20ms);
  held.unlock();
}

TEST(VirtualThreads, read_together_and_write_alone) {
  VirtualRun run;
  std::shared_timed_mutex mutex;
  int readers = 0;
  int most_readers = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const std::shared_lock lock(mutex);
      most_readers = std::max(most_readers, ++readers);
      std::this_thread::sleep_for(10ms);
      --readers;
    });
  }
  threads.emplace_back([&] {
    std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(mutex.try_lock_for(2ms));
    const std::lock_guard lock(mutex);
    EXPECT_EQ(readers, 0);
    EXPECT_EQ(virtual_time::now(), 10ms);
    std::this_thread::sleep_for(10ms);
  });
  threads.clear();
  EXPECT_EQ(most_readers, 3);
  EXPECT_EQ(virtual_time::now(), 20ms);
}

TEST(VirtualThreads, wait_for_the_one_that_runs_the_routine_of_once) {
  VirtualRun run;
  std::once_flag flag;
  int calls = 0;
  const auto fail_once = [&calls] {
    std::this_thread::sleep_for(10ms);
    if (++calls == 1) throw std::runtime_error("the first call fails");
  };
  std::atomic<int> failed{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      try {
        std::call_once(flag, fail_once);
      } catch (const std::runtime_error&) {
        ++failed;
      }
      EXPECT_GE(virtual_time::now(), failed > 0 && calls == 1 ? 10ms : 20ms);
    });
  }
  threads.clear();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(virtual_time::now(), 20ms);
}

int initialized_slowly() {
  static const int value = [] {
    std::this_thread::sleep_for(10ms);
    return 5;
  }();
  return value;
}

TEST(VirtualThreads, wait_for_the_initialization_of_a_local_static_variable) {
  VirtualRun run;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([] { EXPECT_EQ(initialized_slowly(), 5); });
  threads.clear();
  EXPECT_EQ(virtual_time::now(), 10ms);
}

TEST(VirtualThreads, end_while_another_thread_waits_for_that) {
  VirtualRun run;
  std::thread thread([] { std::this_thread::sleep_for(5ms); });
  thread.join();
  EXPECT_EQ(virtual_time::now(), 5ms);
  std::thread ended([] {});
  std::this_thread::sleep_for(1ms);
  ended.join();
  EXPECT_EQ(virtual_time::now(), 6ms);
}

TEST(VirtualThreads, return_a_result_and_time_out_in_a_join) {
  VirtualRun run;
  pthread_t thread{};
  const auto body = [](void*) -> void* {
    std::this_thread::sleep_for(5ms);
    pthread_exit(reinterpret_cast<void*>(7));
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, body, nullptr), 0);
  EXPECT_EQ(pthread_tryjoin_np(thread, nullptr), EBUSY);
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 1'000'000;
  EXPECT_EQ(pthread_clockjoin_np(thread, nullptr, CLOCK_MONOTONIC, &until), ETIMEDOUT);
  EXPECT_EQ(virtual_time::now(), 1ms);
  void* result = nullptr;
  EXPECT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, reinterpret_cast<void*>(7));
  EXPECT_EQ(virtual_time::now(), 5ms);
}

TEST(VirtualThreads, end_with_the_run_when_they_are_detached) {
  VirtualRun run;
  std::atomic<bool> is_done{false};
  std::thread([&is_done] {
    std::this_thread::sleep_for(5ms);
    is_done = true;
  }).detach();
  EXPECT_EQ(run.end(), 0);
  EXPECT_TRUE(is_done);
}

TEST(VirtualThreads, destroy_thread_local_objects_in_their_turn) {
  static std::mutex mutex;
  static int destroyed = 0;
  struct Slow {
    ~Slow() {
      const std::lock_guard lock(mutex);
      std::this_thread::sleep_for(10ms);
      ++destroyed;
    }
    int value = 1;
  };
  VirtualRun run;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([] {
      thread_local Slow object;
      EXPECT_EQ(object.value, 1);
    });
  }
  threads.clear();
  EXPECT_EQ(destroyed, 3);
  EXPECT_EQ(virtual_time::now(), 30ms);
}

TEST(VirtualThreads, pass_an_exception_on) {
  VirtualRun run;
  auto result = std::async(std::launch::async, []() -> int {
    std::this_thread::sleep_for(1ms);
    throw std::runtime_error("from the thread");
  });
  EXPECT_EQ(result.wait_for(500us), std::future_status::timeout);
  EXPECT_THROW(result.get(), std::runtime_error);
  EXPECT_EQ(virtual_time::now(), 1ms);
}

TEST(VirtualThreads, wait_for_atomics_latches_and_semaphores) {
  VirtualRun run;
  std::atomic<int> value{0};
  std::latch latch(2);
  std::counting_semaphore<4> semaphore(0);
  sem_t of_c{};
  sem_init(&of_c, 0, 0);
  std::jthread other([&] {
    std::this_thread::sleep_for(1ms);
    value = 1;
    value.notify_all();
    std::this_thread::sleep_for(10ms);
    latch.count_down();
    std::this_thread::sleep_for(10ms);
    semaphore.release();
    std::this_thread::sleep_for(10ms);
    sem_post(&of_c);
  });
  value.wait(0);
  EXPECT_EQ(value, 1);
  latch.arrive_and_wait();
  EXPECT_GE(virtual_time::now(), 11ms);
  semaphore.acquire();
  EXPECT_GE(virtual_time::now(), 21ms);
  sem_wait(&of_c);
  EXPECT_GE(virtual_time::now(), 31ms);
  EXPECT_FALSE(semaphore.try_acquire_for(5ms));
  sem_destroy(&of_c);
}

TEST(VirtualThreads, notify_one_waiting_thread_or_all) {
  VirtualRun run;
  std::mutex mutex;
  std::condition_variable condition;
  int woken = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      std::unique_lock lock(mutex);
      condition.wait(lock);
      ++woken;
    });
  }
  std::this_thread::sleep_for(1ms);
  condition.notify_one();
  std::this_thread::sleep_for(1ms);
  EXPECT_EQ(woken, 1);
  condition.notify_all();
  threads.clear();
  EXPECT_EQ(woken, 3);
}

/// The number of processors on which the calling thread may really run.
int real_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return syscall(SYS_sched_getaffinity, 0, sizeof(set), &set) > 0 ? CPU_COUNT(&set) : -1;
}

int seen_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : -1;
}

TEST(VirtualThreads, take_turns_on_one_processor_and_see_all) {
  const int before = real_processors();
  {
    VirtualRun run;
    std::jthread other([before] {
      EXPECT_EQ(real_processors(), 1);
      EXPECT_EQ(seen_processors(), before);
    });
  }
  EXPECT_EQ(real_processors(), before);
  VirtualRun run({.processors = 5});
  EXPECT_EQ(std::thread::hardware_concurrency(), 5U);
  EXPECT_EQ(seen_processors(), 5);
}

TEST(VirtualThreads, wait_for_descriptors) {
  VirtualRun run;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  pollfd wanted{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&wanted, 1, 20), 0);
  EXPECT_EQ(virtual_time::now(), 20ms);
  std::jthread writer([&ends] {
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(10ms);
      EXPECT_EQ(write(ends[1], "x", 1), 1);
    }
  });
  EXPECT_EQ(poll(&wanted, 1, -1), 1);
  EXPECT_EQ(virtual_time::now(), 30ms);
  char read_byte = 0;
  EXPECT_EQ(read(ends[0], &read_byte, 1), 1);
  EXPECT_EQ(read(ends[0], &read_byte, 1), 1);
  EXPECT_EQ(virtual_time::now(), 40ms);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  timeval timeout{1, 0};
  EXPECT_EQ(select(ends[0] + 1, &set, nullptr, nullptr, &timeout), 1);
  EXPECT_EQ(virtual_time::now(), 50ms);
  writer.join();
  close(ends[0]);
  close(ends[1]);
}

TEST(VirtualThreads, wait_for_another_process_really) {
  VirtualRun run;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::this_thread::sleep_for(1h);  // virtual there, too
    _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
  }
  char read_byte = 0;
  EXPECT_EQ(read(ends[0], &read_byte, 1), 1);
  EXPECT_EQ(virtual_time::now(), 0ms);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace lockstep::test
