// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The pauses of a thread that waits for an operation, maybe for long. If all ranks are on one node, the thread then
// sleeps until another rank wakes it.

#pragma once

#include "base/mutex.hpp"
#include "base/pause.hpp"
#include "collectives/call/backoff.hpp"
#include "transport/shm/node_sleep.hpp"

#include <chrono>
#include <optional>

namespace lockstep::detail {

class LongWait {
 public:
  /// `group`: the memory that all ranks share; null if they share none. `mutex` is that of the engine.
  LongWait(Mutex& mutex, NodeGroup* group, int spins) : mutex_(mutex), spins_(spins), backoff_(spins) {
    // in virtual time, pauses give other threads their turn
    if (group != nullptr && !has_pause_hooks()) sleep_.emplace(*group);
  }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;
  ~LongWait() { withdraw(); }

  /// The caller does not hold the mutex, and looks for what it awaits after each pause.
  void pause() {
    if (!sleep_ || !backoff_.sleeps_next()) return backoff_.pause();
    if (naps_ > 0) {
      --naps_;
      return backoff_.pause();
    }
    if (!is_announced_) {
      const MutexLock lock(mutex_);
      sleep_->announce();
      is_announced_ = true;
      return;
    }
    if (!sleep_->sleep(longest_sleep)) return;
    withdraw();
    backoff_ = Backoff(spins_, yields_after_wake);
    naps_ = naps_after_wake;
  }

 private:
  /// Some events wake no thread, such as the end of another process.
  static constexpr std::chrono::milliseconds longest_sleep{5};
  /// The ranks of the node may be busy with other things than this thread waits for, such as messages of two of them.
  /// Then they do not wake it more often than a hundred times a second.
  static constexpr int naps_after_wake = 50;
  static constexpr int yields_after_wake = 500;

  void withdraw() {
    if (!is_announced_) return;
    const MutexLock lock(mutex_);
    sleep_->withdraw();
    is_announced_ = false;
  }

  Mutex& mutex_;
  int spins_;
  Backoff backoff_;
  std::optional<NodeSleep> sleep_;
  bool is_announced_ = false;
  int naps_ = 0;
};

}  // namespace lockstep::detail
