// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The processor time of a thread, which other load of the machine does not change much: for tests that compare the
// cost of two calls. It is real in a run of virtual time.

#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

namespace lockstep::test {

inline std::chrono::nanoseconds processor_time_of_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// The least processor time that one of `repeats` calls of `body` takes.
template <class Body>
std::chrono::nanoseconds least_processor_time(int repeats, const Body& body) {
  auto least = std::chrono::nanoseconds::max();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto begin = processor_time_of_thread();
    body();
    least = std::min(least, processor_time_of_thread() - begin);
  }
  return least;
}

}  // namespace lockstep::test
