// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How time counts for a deadline. A rank drives its communicator only now and then if no progress thread does, and not
// at all while it is stopped (SIGSTOP, a suspended job); meanwhile the other ranks may have come.

#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep::detail {

/// Not thread-safe: the engine calls under its lock.
class DrivingClock {
 public:
  using Clock = std::chrono::steady_clock;

  /// A thread drives now. Returns the part of the time since the last call that does not count: a pause counts as one
  /// second at most or, if that is longer, a twentieth of the deadline. So a rank that polls seldom reaches its
  /// deadline, and a job that was suspended does not fail when it continues.
  Clock::duration drive(Clock::duration fail_after) noexcept {
    const Clock::time_point now = Clock::now();
    const Clock::duration pause = now - last_;
    last_ = now;
    if (pause <= std::chrono::seconds(1)) return Clock::duration(0);
    resumed_ = now;
    return pause - std::min(pause, std::max<Clock::duration>(std::chrono::seconds(1), fail_after / 20));
  }
  /// Without counting the time since the last call.
  void restart() noexcept { last_ = Clock::now(); }
  [[nodiscard]] Clock::time_point now() const noexcept { return last_; }

  /// Whether a wait fails whose deadline was first seen to have passed at `late_since`. After a pause a rank first
  /// looks for a moment at messages that came in the pause, such as the failure of another rank, or does so when it is
  /// driven the next time.
  [[nodiscard]] bool may_fail(Clock::time_point late_since) const noexcept {
    return last_ - resumed_ >= look_time || last_ - late_since >= look_time;
  }

 private:
  static constexpr auto look_time = std::chrono::milliseconds(100);

  Clock::time_point last_ = Clock::now();
  Clock::time_point resumed_{};
};

}  // namespace lockstep::detail
