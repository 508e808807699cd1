// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Pauses for a loop that waits for another thread or rank. The pauses free the core, since the awaited thread or rank
// may need it.

#pragma once

#include "base/pause.hpp"

#include <chrono>
#include <cstdint>

namespace lockstep::detail {

/// Spins, then yields, then sleeps. One object per wait.
class Backoff {
 public:
  /// Number of spins before the first yield. A spin costs some tenths of a microsecond. A thread with a core of its own
  /// spins for long, because a yield may give the core to another process for milliseconds; a thread that shares its
  /// core yields almost at once.
  static constexpr int own_core_spins = 2000;
  static constexpr int shared_core_spins = 20;

  static constexpr int brief_yields = 500;  ///< a fraction of a millisecond if no other thread wants the core
  static constexpr int few_yields = 50;     ///< where other work of this rank waits meanwhile

  explicit Backoff(int spins, int yields = many_yields)
      : spins_(has_pause_hooks() ? shared_core_spins : spins),
        yields_(has_pause_hooks() ? shared_core_spins : yields) {}

  /// Spins or yields, and returns true. If the wait has already lasted so long that the caller must check the clock and
  /// control messages, returns false at once.
  [[nodiscard]] bool pause_briefly(int yields = brief_yields) {
    ++pauses_;
    if (pauses_ <= spins_) {
      cpu_relax(number());
      return true;
    }
    if (pauses_ > spins_ + yields || yielded_ > brief_time) return false;
    const auto before = Clock::now();
    yield_core(number());  // another thread may use the core for milliseconds
    yielded_ += Clock::now() - before;
    return true;
  }

  /// Spins once, and returns true; returns false at once if it is time to yield.
  [[nodiscard]] bool spin() {
    if (++pauses_ > spins_) return false;
    cpu_relax(number());
    return true;
  }

  [[nodiscard]] bool has_yielded() const noexcept { return pauses_ > spins_; }

  /// Whether `pause` would sleep.
  [[nodiscard]] bool sleeps_next() const noexcept { return pauses_ >= spins_ + yields_; }

  /// For a background thread beside threads that compute: the first calls return at once, later calls sleep. A thread
  /// that sleeps is scheduled soon after it wakes. A thread that yields runs again only after the whole time slices of
  /// other threads, milliseconds later.
  void pause_in_background() {
    ++pauses_;
    if (pauses_ <= shared_core_spins) return;
    sleep_briefly(std::chrono::microseconds(100), number());
  }

  void pause() {
    ++pauses_;
    if (pauses_ <= spins_) return;
    if (pauses_ <= spins_ + yields_) {
      yield_core(number());
      return;
    }
    sleep_briefly(std::chrono::microseconds(200), number());
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr int many_yields = 20'000;  // tens of milliseconds in all
  static constexpr auto brief_time = std::chrono::milliseconds(5);

  [[nodiscard]] std::uint32_t number() const noexcept { return static_cast<std::uint32_t>(pauses_); }

  int spins_;
  int yields_;
  int pauses_ = 0;
  Clock::duration yielded_{};
};

}  // namespace lockstep::detail
