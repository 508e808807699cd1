// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The time that counts for a deadline. If there is no progress thread, a rank makes progress only when one of its
// threads waits or polls. A stopped rank (SIGSTOP, a suspended job) makes no progress at all. The other ranks may have
// arrived during such a pause, so a long pause does not count in full.

#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep::detail {

/// Not thread-safe: called under the engine's lock.
class DrivingClock {
 public:
  using Clock = std::chrono::steady_clock;

  /// Called whenever a thread makes progress. Returns the part of the time since the last call that does not count. Of
  /// each pause, at most one second or a twentieth of the timeout `fail_after` counts, whichever is longer. So a rank
  /// that polls seldom still reaches its deadline, and a suspended job does not fail when it continues.
  Clock::duration drive(Clock::duration fail_after) noexcept {
    const Clock::time_point now = Clock::now();
    const Clock::duration pause = now - last_;
    last_ = now;
    if (pause <= std::chrono::seconds(1)) return Clock::duration(0);
    resumed_ = now;
    return pause - std::min(pause, std::max<Clock::duration>(std::chrono::seconds(1), fail_after / 20));
  }
  /// Starts the clock: the time since the last call of `drive` does not count.
  void restart() noexcept { last_ = Clock::now(); }
  /// The time of the last call of `drive` or `restart`.
  [[nodiscard]] Clock::time_point now() const noexcept { return last_; }

  /// Whether a wait may fail now. `late_since` is the time at which its deadline was first seen to have passed. After a
  /// pause, the rank first needs a moment to receive messages that arrived in the pause, such as the failure of another
  /// rank. So the wait may fail 100 ms after the pause or, if further pauses follow, 100 ms after `late_since`.
  [[nodiscard]] bool may_fail(Clock::time_point late_since) const noexcept {
    return last_ - resumed_ >= look_time || last_ - late_since >= look_time;
  }

 private:
  static constexpr auto look_time = std::chrono::milliseconds(100);

  Clock::time_point last_ = Clock::now();
  Clock::time_point resumed_{};
};

}  // namespace lockstep::detail
