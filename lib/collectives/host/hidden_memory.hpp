// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A place for tests to hide buffers from the other ranks, where everybody would see them.

#pragma once

#include <atomic>

namespace lockstep::detail {

using HidesMemory = bool (*)(const void* data);

/// Null but in tests.
inline std::atomic<HidesMemory> hides_memory{nullptr};

/// Asked once for each buffer of an operation.
inline bool is_hidden(const void* data) {
  const HidesMemory hides = hides_memory.load(std::memory_order_relaxed);
  return hides != nullptr && hides(data);
}

}  // namespace lockstep::detail
