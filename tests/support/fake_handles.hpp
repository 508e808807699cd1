// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::test {

/// One that this process has not had before, so that a handle of what is gone is known to be none. Never null.
inline void* new_handle() {
  static std::atomic<std::uintptr_t> next{0x1000};
  return reinterpret_cast<void*>(next.fetch_add(0x10));
}

}  // namespace lockstep::test
