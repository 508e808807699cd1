// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How to wait for somebody else without burning a core that he may need.

#pragma once

#include "base/processor.hpp"

#include <chrono>
#include <thread>

namespace lockstep::detail {

/// Spins, then yields, then sleeps. One object per wait.
class Backoff {
 public:
  /// Spins between two looks at the world, each of which costs some tenths of a microsecond. Who has a core for himself
  /// spins for long before he yields, since a yield may hand the core to a stranger for milliseconds; who shares one
  /// yields almost at once.
  static constexpr int own_core_spins = 2000;
  static constexpr int shared_core_spins = 20;

  explicit Backoff(int spins) : spins_(spins) {}

  /// Spins or yields; false, having done nothing, when that has gone on for so long that clock and mail want a look.
  [[nodiscard]] bool pause_briefly() {
    ++pauses_;
    if (pauses_ <= spins_) {
      cpu_relax();
      return true;
    }
    if (pauses_ > spins_ + brief_yields || yielded_ > brief_time) return false;
    const auto before = Clock::now();
    std::this_thread::yield();  // to a thread that may keep the core for milliseconds
    yielded_ += Clock::now() - before;
    return true;
  }

  /// For a thread that nobody waits for, beside others that compute: it gives way at once. Who sleeps is let in soon
  /// when he wakes; who yields comes back after a whole turn of theirs, milliseconds later.
  void pause_in_background() {
    ++pauses_;
    if (pauses_ <= shared_core_spins) return;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  void pause() {
    ++pauses_;
    if (pauses_ <= spins_) return;
    if (pauses_ <= spins_ + yields) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr int yields = 20'000;     // tens of milliseconds
  static constexpr int brief_yields = 500;  // a fraction of a millisecond where nobody else wants the core
  static constexpr auto brief_time = std::chrono::milliseconds(5);

  int spins_;
  int pauses_ = 0;
  Clock::duration yielded_{};
};

}  // namespace lockstep::detail
