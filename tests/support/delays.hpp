// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Hooks that make ranks slow at random moments: at every flag that they show to each other. In virtual time, the delays
// depend on the seed of the run alone.

#pragma once

#include "transport/shm/node_group.hpp"
#include "virtual_time/virtual_time.hpp"

#include <chrono>
#include <random>
#include <thread>

namespace lockstep::test {

inline unsigned random_of_thread() {
  thread_local std::minstd_rand random(static_cast<unsigned>(virtual_time::seed_of_thread()) + 1);
  return static_cast<unsigned>(random());
}

/// Nothing, a moment, or long enough for others to come two operations further if they could.
inline void random_delay() {
  switch (random_of_thread() % 64) {
    case 0: std::this_thread::sleep_for(std::chrono::microseconds(random_of_thread() % 300)); break;
    case 1:
    case 2:
    case 3: std::this_thread::yield(); break;
    default: break;
  }
}

/// Some buffers cannot be seen by the others.
inline bool hides_some(const void*) { return random_of_thread() % 16 < 9; }

inline constexpr detail::TestHooks delays{.at_flag = random_delay};
inline constexpr detail::TestHooks delays_and_hidden_memory{.at_flag = random_delay, .hides_memory = hides_some};

}  // namespace lockstep::test
