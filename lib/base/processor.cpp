// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/processor.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace lockstep::detail {

AllowedCpus allowed_cpus() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  // sched_getaffinity fails if the machine has more processors than a cpu_set_t holds
  if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) == 0)
    return {0, std::max(static_cast<std::int32_t>(std::thread::hardware_concurrency()), 1)};
  std::int32_t first = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(first), &set)) ++first;
  return {first, CPU_COUNT(&set)};
}

std::size_t last_level_cache_bytes() noexcept {
  static const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{32} << 20;
}

}  // namespace lockstep::detail
