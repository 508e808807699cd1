// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/leak.hpp"

#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"

#include <vector>

namespace lockstep::detail {
namespace {

struct Leaked {
  Mutex mutex;
  std::vector<const void*> memory LOCKSTEP_GUARDED_BY(mutex);
};

}  // namespace

void leak(const void* memory) noexcept {
  try {
    static NeverDestroyed<Leaked> leaked;  // threads may leak memory while the process ends
    const MutexLock lock(leaked->mutex);
    leaked->memory.push_back(memory);
  } catch (...) {  // no memory for the list: the block is leaked anyway, but is not in the list
  }
}

}  // namespace lockstep::detail
