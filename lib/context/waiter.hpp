// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads of one process wait until an atomic changes: they first spin, then yield, then sleep.

#pragma once

#include "base/mutex.hpp"
#include "base/pause.hpp"
#include "base/processor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>

namespace lockstep {

/// How long a thread of this rank spins before it yields its processor.
struct WaitPolicy {
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);  ///< maximum spin time
  int yields = 4;

  /// Disables spinning if `threads` is greater than the number of allowed processors.
  static WaitPolicy for_threads(int threads) {
    if (detail::has_pause_hooks() || threads > detail::allowed_cpus().count)
      return {.spin = std::chrono::nanoseconds(0)};
    return {};
  }
};

/// A condition is a function of atomics. A thread that changes such an atomic must use a sequentially consistent store,
/// and then call `wake()`. Thread-safety: any number of waiting and waking threads.
class Waiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Waiter(WaitPolicy policy) noexcept : policy_(policy), spin_(policy.spin.count()) {}

  /// Waits until `ready()` returns true, and returns true. Returns false if `deadline` passes first.
  template <class Ready>
  bool wait_until(const Ready& ready, Clock::time_point deadline) {
    if (ready()) return true;
    if (policy_.spin.count() > 0 && spin(ready)) return true;
    for (int i = 0; i < policy_.yields; ++i) {
      if (ready()) return true;
      detail::yield_core(static_cast<std::uint32_t>(i) + 1);
    }
    return sleep_until(ready, deadline);
  }

  /// Makes sleeping threads evaluate their conditions again. Costs one load if no thread sleeps.
  void wake() {
    // Four accesses are sequentially consistent: the caller's store to the condition, this load, a sleeper's increment
    // of `sleepers_`, and the sleeper's load of the condition. So either this load sees the sleeper, or the sleeper
    // sees the caller's store.
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    { const detail::MutexLock lock(mutex_); }
    changed_.notify_all();
  }

 private:
  /// Spins for a time that grows after a success and shrinks after a failure, because on an oversubscribed processor a
  /// spinning thread delays the thread for which it waits.
  template <class Ready>
  bool spin(const Ready& ready) {
    const std::int64_t budget = spin_.load(std::memory_order_relaxed);
    const auto end = Clock::now() + std::chrono::nanoseconds(budget);
    do {
      for (std::uint32_t i = 1; i <= 16; ++i) {
        if (ready()) {
          spin_.store(std::min(budget + budget / 8 + 100, policy_.spin.count()), std::memory_order_relaxed);
          return true;
        }
        detail::cpu_relax(i);
      }
    } while (Clock::now() < end);
    spin_.store(budget / 2, std::memory_order_relaxed);
    return false;
  }

  template <class Ready>
  bool sleep_until(const Ready& ready, Clock::time_point deadline) {
    detail::MutexLock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    bool done = ready();
    while (!done && Clock::now() < deadline) {
      lock.wait_until(changed_, deadline);
      done = ready();
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return done;
  }

  WaitPolicy policy_;
  std::atomic<std::int64_t> spin_;  // spin time in nanoseconds; a hint, so relaxed order is enough
  std::atomic<int> sleepers_{0};
  detail::Mutex mutex_;  // guards no data; covers the time between a sleeper's last test and its sleep
  std::condition_variable changed_;
};

}  // namespace lockstep
