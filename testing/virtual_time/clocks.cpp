// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Clocks and sleeps.

#include "virtual_time/real.hpp"
#include "virtual_time/times.hpp"

#include <sched.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

using namespace lockstep::virtual_time::detail;

namespace {

VIRTUAL_TIME_REAL(clock_gettime);
VIRTUAL_TIME_REAL(gettimeofday);
VIRTUAL_TIME_REAL(time);
VIRTUAL_TIME_REAL(timespec_get);
VIRTUAL_TIME_REAL(nanosleep);
VIRTUAL_TIME_REAL(clock_nanosleep);
VIRTUAL_TIME_REAL(usleep);
VIRTUAL_TIME_REAL(sleep);
VIRTUAL_TIME_REAL(sched_yield);

Time read(Scheduler& run, clockid_t clock) {
  run.count_clock_reading();
  return begin_of(clock) + run.now();
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* result) noexcept {
  Scheduler* const run = active();
  if (run == nullptr || !is_virtual(clock)) return real_clock_gettime(clock, result);
  *result = timespec_of(read(*run, clock));
  return 0;
}

int gettimeofday(timeval* result, void* zone) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_gettimeofday(result, zone);
  const timespec now = timespec_of(read(*run, CLOCK_REALTIME));
  *result = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* result) noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_time(result);
  const time_t now = read(*run, CLOCK_REALTIME) / second;
  if (result != nullptr) *result = now;
  return now;
}

int timespec_get(timespec* result, int base) noexcept {
  Scheduler* const run = active();
  if (run == nullptr || base != TIME_UTC) return real_timespec_get(result, base);
  *result = timespec_of(read(*run, CLOCK_REALTIME));
  return base;
}

int nanosleep(const timespec* duration, timespec* rest) {
  Scheduler* const run = active();
  if (run == nullptr) return real_nanosleep(duration, rest);
  run->block(nullptr, deadline_after(*run, duration));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  Scheduler* const run = active();
  if (run == nullptr || !is_virtual(clock)) return real_clock_nanosleep(clock, flags, time, rest);
  run->block(nullptr, (flags & TIMER_ABSTIME) != 0 ? deadline_of(clock, time) : deadline_after(*run, time));
  return 0;
}

int usleep(useconds_t duration) {
  Scheduler* const run = active();
  if (run == nullptr) return real_usleep(duration);
  run->block(nullptr, run->now() + Time{duration} * 1000);
  return 0;
}

unsigned int sleep(unsigned int seconds) {
  Scheduler* const run = active();
  if (run == nullptr) return real_sleep(seconds);
  run->block(nullptr, run->now() + Time{seconds} * second);
  return 0;
}

int sched_yield() noexcept {
  Scheduler* const run = active();
  if (run == nullptr) return real_sched_yield();
  run->pause(Scheduler::Pause::yield, 0);
  return 0;
}

}  // extern "C"
