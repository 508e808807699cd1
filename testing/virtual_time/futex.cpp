// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Futexes, by which the C++ library waits for atomics and for the initialization of local static variables.

#include "virtual_time/real.hpp"
#include "virtual_time/refuse.hpp"
#include "virtual_time/times.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstdint>

using namespace lockstep::virtual_time::detail;

namespace {

VIRTUAL_TIME_REAL(syscall);

long wait_for(Scheduler& run, const void* word, std::uint32_t expected, Time deadline) {
  if (static_cast<const std::atomic<std::uint32_t>*>(word)->load() != expected) {
    errno = EAGAIN;
    return -1;
  }
  if (run.block(word, deadline)) return 0;
  errno = ETIMEDOUT;
  return -1;
}

long call_futex(Scheduler& run, const void* word, int operation, std::uint32_t value, const timespec* time) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT: return wait_for(run, word, value, deadline_after(run, time));
    case FUTEX_WAIT_BITSET: {
      const clockid_t clock = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
      return wait_for(run, word, value, deadline_of(clock, time));
    }
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: return run.wake(word, static_cast<int>(value));
    default: refuse("syscall(SYS_futex) with an operation other than wait and wake");
  }
}

}  // namespace

extern "C" long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  Scheduler* const run = active();
  if (run != nullptr && number == SYS_futex) {
    return call_futex(*run, std::bit_cast<const void*>(arguments[0]), static_cast<int>(arguments[1]),
                      static_cast<std::uint32_t>(arguments[2]), std::bit_cast<const timespec*>(arguments[3]));
  }
  return real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
