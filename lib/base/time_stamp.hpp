// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Converts times that cost some nanoseconds (see pause.hpp) to wall time when they are shown.

#pragma once

#include "base/pause.hpp"

#include <chrono>
#include <cstdint>

namespace lockstep::detail {

/// Converts time stamps to wall time. The time stamps must be taken after the construction of the clock. Thread-safe.
class TimeStampClock {
 public:
  /// Begins to compare the counter with the clock of the system.
  TimeStampClock() noexcept : first_(now()) {}
  /// The conversion for time stamps that were taken before the call of `conversion`. Its precision grows with the time
  /// since the construction of the clock: it is about a microsecond after some milliseconds.
  class Conversion {
   public:
    /// Microseconds since 1970.
    [[nodiscard]] std::int64_t microseconds(std::uint64_t stamp) const noexcept {
      const double ago = (static_cast<double>(last_stamp_) - static_cast<double>(stamp)) * microseconds_per_tick_;
      return wall_ - static_cast<std::int64_t>(ago);
    }
    [[nodiscard]] double seconds_per_tick() const noexcept { return microseconds_per_tick_ / 1e6; }

   private:
    friend class TimeStampClock;
    std::uint64_t last_stamp_ = 0;
    double microseconds_per_tick_ = 0;
    std::int64_t wall_ = 0;  // microseconds since 1970
  };
  [[nodiscard]] Conversion conversion() const noexcept {
    using Microseconds = std::chrono::duration<double, std::micro>;
    const Pair last = now();
    Conversion result;
    result.last_stamp_ = last.stamp;
    if (last.stamp > first_.stamp) {
      result.microseconds_per_tick_ =
          Microseconds(last.time - first_.time).count() / static_cast<double>(last.stamp - first_.stamp);
    }
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    result.wall_ = std::chrono::duration_cast<std::chrono::microseconds>(wall).count();
    return result;
  }

 private:
  struct Pair {
    std::uint64_t stamp;
    std::chrono::steady_clock::time_point time;
  };
  [[nodiscard]] static Pair now() noexcept { return {time_stamp(), std::chrono::steady_clock::now()}; }
  Pair first_;
};

}  // namespace lockstep::detail
