// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A hook for tests, to delay ranks before every access to a shared flag.

#pragma once

#include <atomic>

namespace lockstep::detail {

using FlagDelay = void (*)();

/// Null except in tests.
inline std::atomic<FlagDelay> flag_delay{nullptr};

/// Called before a flag is written or read.
inline void at_flag() {
  if (const FlagDelay delay = flag_delay.load(std::memory_order_relaxed)) [[unlikely]] {
    delay();
  }
}

}  // namespace lockstep::detail
