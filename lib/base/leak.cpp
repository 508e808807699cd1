// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/leak.hpp"

#include <mutex>
#include <vector>

namespace lockstep::detail {
namespace {

struct Leaked {
  std::mutex mutex;
  std::vector<const void*> memory;
};

}  // namespace

void leak(const void* memory) noexcept {
  try {
    // never destroyed: threads may give memory up while the process ends
    static Leaked& leaked = *new Leaked;
    const std::lock_guard lock(leaked.mutex);
    leaked.memory.push_back(memory);
  } catch (...) {  // no memory to remember it in: it is given up all the same
  }
}

}  // namespace lockstep::detail
