// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::test {

/// A handle that this process has not used before, so that handles of destroyed objects are detected. Never null.
inline void* new_handle() {
  static std::atomic<std::uintptr_t> next{0x1000};
  return reinterpret_cast<void*>(next.fetch_add(0x10));
}

}  // namespace lockstep::test
