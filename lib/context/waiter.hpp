// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Waiting of threads of one process for an atomic to change: spin, yield, sleep.

#pragma once

#include "base/mutex.hpp"
#include "base/processor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <thread>

namespace lockstep {

/// How long a thread of this rank spins before it gives its processor away.
struct WaitPolicy {
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);  ///< at most
  int yields = 4;

  /// No spinning when `threads` threads share fewer allowed processors.
  static WaitPolicy for_threads(int threads);
};

/// The conditions are functions of atomics that their writers change with sequentially consistent stores, followed by
/// `wake()`. Thread-safety: any number of waiting and waking threads.
class Waiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Waiter(WaitPolicy policy) noexcept : policy_(policy), spin_(policy.spin.count()) {}

  /// Returns true once `ready()` holds, false when `deadline` has passed before.
  template <class Ready>
  bool wait_until(const Ready& ready, Clock::time_point deadline) {
    if (ready()) return true;
    if (policy_.spin.count() > 0 && spin(ready)) return true;
    for (int i = 0; i < policy_.yields; ++i) {
      if (ready()) return true;
      std::this_thread::yield();
    }
    return sleep_until(ready, deadline);
  }

  /// Lets sleeping threads look at their conditions again. Costs one load when nobody sleeps.
  void wake() {
    // sequentially consistent, as are the condition's store before it and the sleeper's increment and look after it:
    // either this load sees the sleeper, or the sleeper sees the new state
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    { const detail::MutexLock lock(mutex_); }
    changed_.notify_all();
  }

 private:
  /// Spins for a while that grows when it was worth it and shrinks when it was not: on a processor that others want,
  /// too, a spinning thread only keeps away the one that it waits for.
  template <class Ready>
  bool spin(const Ready& ready) {
    const std::int64_t budget = spin_.load(std::memory_order_relaxed);
    const auto end = Clock::now() + std::chrono::nanoseconds(budget);
    do {
      for (int i = 0; i < 16; ++i) {
        if (ready()) {
          spin_.store(std::min(budget + budget / 8 + 100, policy_.spin.count()), std::memory_order_relaxed);
          return true;
        }
        detail::cpu_relax();
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
  std::atomic<std::int64_t> spin_;  // nanoseconds; a hint, so its order does not matter
  std::atomic<int> sleepers_{0};
  detail::Mutex mutex_;  // guards nothing but the moment between looking and sleeping
  std::condition_variable changed_;
};

}  // namespace lockstep
