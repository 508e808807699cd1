// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A program sees the processors that it had before the run, or Options::processors.

#include "virtual_time/processor.hpp"

#include "virtual_time/real.hpp"
#include "virtual_time/scheduler.hpp"
#include "virtual_time/times.hpp"

#include <sched.h>
#include <sys/sysinfo.h>

#include <cstddef>
#include <cstring>
#include <ctime>

using namespace lockstep::virtual_time::detail;

namespace {

VIRTUAL_TIME_REAL(clock_gettime);
VIRTUAL_TIME_REAL(sched_getaffinity);
VIRTUAL_TIME_REAL(get_nprocs);

constexpr Time time_between_looks = 100'000'000;  // ns

/// The run's share of its processor since the last look tells whether other processes use it.
struct Look {
  Time real = 0;
  Time of_processor = 0;
};

cpu_set_t allowed;  // to the program
bool is_bound = false;
int processor = 0;  // of the run
Look last_look;

Time read(clockid_t clock) noexcept {
  timespec time{};
  real_clock_gettime(clock, &time);
  return time.tv_sec * second + time.tv_nsec;
}

Look look() noexcept { return {read(CLOCK_MONOTONIC), read(CLOCK_PROCESS_CPUTIME_ID)}; }

/// The processors that the calling thread sees. Null: those that it has.
const cpu_set_t* seen(cpu_set_t& made) noexcept {
  const Scheduler* const run = active();
  if (run == nullptr) return nullptr;
  if (run->processors() == 0) return is_bound ? &allowed : nullptr;
  CPU_ZERO(&made);
  for (int number = 0; number < run->processors(); ++number) CPU_SET(static_cast<std::size_t>(number), &made);
  return &made;
}

}  // namespace

namespace lockstep::virtual_time::detail {

void use_one_processor() noexcept {
  CPU_ZERO(&allowed);
  // fails if the machine has more processors than a cpu_set_t holds
  if (real_sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  processor = sched_getcpu();
  if (processor < 0) return;
  bind(0);
  is_bound = true;
  last_look = look();
}

void use_all_processors() noexcept {
  if (is_bound) sched_setaffinity(0, sizeof(allowed), &allowed);
  is_bound = false;
}

void look_again() noexcept { last_look = look(); }

bool must_move() noexcept {
  if (!is_bound || read(CLOCK_MONOTONIC) - last_look.real < time_between_looks) return false;
  const Look before = last_look;
  last_look = look();
  if (last_look.of_processor - before.of_processor > (last_look.real - before.real) / 4 * 3) return false;
  do processor = (processor + 1) % CPU_SETSIZE;
  while (!CPU_ISSET(static_cast<std::size_t>(processor), &allowed));
  return true;
}

void bind(pid_t thread) noexcept {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(processor), &one);
  sched_setaffinity(thread, sizeof(one), &one);  // fails for a thread that has just ended
}

}  // namespace lockstep::virtual_time::detail

extern "C" {

int sched_getaffinity(pid_t thread, std::size_t bytes, cpu_set_t* set) noexcept {
  cpu_set_t made;
  const cpu_set_t* const found = thread == 0 ? seen(made) : nullptr;
  if (found == nullptr || bytes < sizeof(*found)) return real_sched_getaffinity(thread, bytes, set);
  std::memset(set, 0, bytes);
  std::memcpy(set, found, sizeof(*found));
  return 0;
}

int get_nprocs() noexcept {
  const Scheduler* const run = active();
  return run == nullptr || run->processors() == 0 ? real_get_nprocs() : run->processors();
}

}  // extern "C"
