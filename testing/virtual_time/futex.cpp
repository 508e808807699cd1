// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Futexes, by which the C++ library waits for atomics and for the initialization of local static variables.

#include "virtual_time/real.hpp"
#include "virtual_time/refuse.hpp"
#include "virtual_time/times.hpp"
#include "virtual_time/virtual_time.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace lockstep::virtual_time::detail;

namespace {

VIRTUAL_TIME_REAL(syscall);

struct Views {
  const std::byte* begin;
  std::size_t bytes;  // of one
  std::size_t count;
};
std::vector<Views> all_views;

/// The address in the first view on the memory that has this word.
const void* common_address(const void* word) noexcept {
  const auto* const address = static_cast<const std::byte*>(word);
  for (const Views& each : all_views) {
    const auto offset = static_cast<std::size_t>(address - each.begin);
    if (address >= each.begin && offset < each.bytes * each.count) return each.begin + offset % each.bytes;
  }
  return word;
}

long wait_for(Scheduler& run, const void* word, std::uint32_t expected, Time deadline) {
  if (static_cast<const std::atomic<std::uint32_t>*>(word)->load() != expected) {
    errno = EAGAIN;
    return -1;
  }
  if (run.block(common_address(word), deadline)) return 0;
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
    case FUTEX_WAKE_BITSET: return run.wake(common_address(word), static_cast<int>(value));
    default: refuse("syscall(SYS_futex) with an operation other than wait and wake");
  }
}

}  // namespace

namespace lockstep::virtual_time {

void has_views(const void* begin, std::size_t bytes, std::size_t count) {
  all_views.push_back({static_cast<const std::byte*>(begin), bytes, count});
}
void forget_views(const void* begin) {
  std::erase_if(all_views, [begin](const Views& each) { return each.begin == begin; });
}

}  // namespace lockstep::virtual_time

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
