// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "context/waiter.hpp"

#include <sched.h>

namespace lockstep {

WaitPolicy WaitPolicy::for_threads(int threads) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int processors = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                             ? CPU_COUNT(&allowed)
                             : static_cast<int>(std::thread::hardware_concurrency());
  if (threads > processors) return {.spin = std::chrono::nanoseconds(0)};
  return {};
}

}  // namespace lockstep
