// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Times of the C library, as times of a run.

#pragma once

#include "virtual_time/scheduler.hpp"

#include <ctime>

namespace lockstep::virtual_time::detail {

inline constexpr Time second = 1'000'000'000;
/// What the clocks show at the begin of a run.
inline constexpr Time realtime_begin = 1'000'000'000 * second;
inline constexpr Time monotonic_begin = 1'000'000 * second;

[[nodiscard]] inline Time time_of(const timespec& time) noexcept { return Time{time.tv_sec} * second + time.tv_nsec; }
[[nodiscard]] inline timespec timespec_of(Time time) noexcept { return {time / second, time % second}; }
[[nodiscard]] inline bool is_valid(const timespec& time) noexcept {
  return time.tv_sec < never / second / 2 && time.tv_nsec >= 0 && time.tv_nsec < second;
}

[[nodiscard]] inline bool is_realtime(clockid_t clock) noexcept {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}
[[nodiscard]] inline bool is_virtual(clockid_t clock) noexcept {
  return is_realtime(clock) || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
         clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME;
}
[[nodiscard]] inline Time begin_of(clockid_t clock) noexcept {
  return is_realtime(clock) ? realtime_begin : monotonic_begin;
}

/// The deadline that `time` of `clock` is; a time too far away is none.
[[nodiscard]] inline Time deadline_of(clockid_t clock, const timespec* time) noexcept {
  if (time == nullptr || !is_valid(*time)) return never;
  return time_of(*time) - begin_of(clock);
}
/// The deadline after `duration` from now.
[[nodiscard]] inline Time deadline_after(const Scheduler& run, const timespec* duration) noexcept {
  if (duration == nullptr || !is_valid(*duration)) return never;
  return run.now() + time_of(*duration);
}

}  // namespace lockstep::virtual_time::detail
