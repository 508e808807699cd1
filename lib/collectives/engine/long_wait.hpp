// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The pauses of a thread that waits for an operation, maybe for long. If all ranks are on one node, a thread that has
// nothing to do before another rank acts sleeps until that rank wakes it. If they are on several nodes, it sleeps until
// something comes from another node, if the transport can tell.

#pragma once

#include "base/pause.hpp"
#include "collectives/call/backoff.hpp"
#include "transport/shm/node_sleep.hpp"
#include "transport/transport.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep::detail {

class LongWait {
 public:
  /// `group`: the memory that all ranks share; null if they share none. `transport`: null if it cannot sleep.
  LongWait(NodeGroup* group, const Transport* transport, int spins) : backoff_(spins), transport_(transport) {
    if (group != nullptr) sleep_.emplace(*group);
  }

  /// Whether the wait has lasted so long that the next pause may be a sleep. If so, call `prepare` first.
  [[nodiscard]] bool is_long() const noexcept {
    return (sleep_ || transport_ != nullptr) && naps_ == 0 && backoff_.sleeps_next();
  }
  /// To be called under the engine's lock. `may_sleep`: this rank has nothing to do before another rank acts.
  void prepare(bool may_sleep) noexcept {
    if (transport_ != nullptr) {
      next_ = may_sleep && early_ends_ < most_early_ends ? Next::sleep : Next::pause;
      return;
    }
    next_ = !may_sleep ? Next::pause : sleep_->is_announced() ? Next::sleep : Next::look;
    if (may_sleep) sleep_->announce();
  }
  /// The caller does not hold the engine's lock, and looks for what it awaits after each pause.
  void pause() {
    const Next now = std::exchange(next_, Next::pause);
    if (now == Next::look) return;
    if (now == Next::pause) {
      if (naps_ > 0 && backoff_.sleeps_next()) --naps_;
      return backoff_.pause();
    }
    if (transport_ != nullptr) return sleep_in_transport();
    if (!sleep_->sleep(time_to_sleep())) return;
    backoff_ = Backoff(Backoff::shared_core_spins, Backoff::brief_yields);
    naps_ = naps_after_wake_;
    naps_after_wake_ = std::min(2 * naps_after_wake_, most_naps);
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Next : std::uint8_t { pause, look, sleep };
  static constexpr int least_naps = 50;  // at least ten milliseconds in all
  static constexpr int most_naps = 1600;

  /// Some events wake no thread, such as the end of a process, or messages of MPI that have nothing to do with lockstep
  /// and move only while a thread is in MPI. They are seen after a hundredth of the time of the wait, at most 10 ms.
  [[nodiscard]] std::chrono::microseconds time_to_sleep() const {
    constexpr std::chrono::microseconds shortest(200);
    constexpr std::chrono::microseconds longest(10'000);
    if (has_pause_hooks()) return longest;  // in virtual time a wait of a second has few pauses
    return std::clamp(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin_) / 100, shortest,
                      longest);
  }

  /// A sleep that ends at once again and again is none: the transport is told of something that it cannot take, such as
  /// a connection when the process has no descriptor left.
  void sleep_in_transport() {
    constexpr std::chrono::microseconds least_time(50);
    const Clock::time_point begin = Clock::now();
    transport_->sleep(time_to_sleep());
    early_ends_ = Clock::now() - begin < least_time ? early_ends_ + 1 : 0;
  }

  static constexpr int most_early_ends = 1000;

  Backoff backoff_;
  Clock::time_point begin_ = Clock::now();
  const Transport* transport_;
  int early_ends_ = 0;  // of sleeps, one after the other
  std::optional<NodeSleep> sleep_;
  Next next_ = Next::pause;
  int naps_ = 0;  // before the next sleep
  /// More each time: the others may be busy with other things than this thread waits for, such as messages of two of
  /// them, and then wake it for nothing.
  int naps_after_wake_ = least_naps;
};

}  // namespace lockstep::detail
