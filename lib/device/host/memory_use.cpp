// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/memory_use.hpp"

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <utility>

namespace lockstep::detail {
namespace {

struct Uses {
  Mutex mutex;
  MemoryUse* first LOCKSTEP_GUARDED_BY(mutex) = nullptr;  // head of the list of all uses
  std::atomic<std::size_t> count{0};                      // number of uses in the list; changed under `mutex`
};
Uses& uses() noexcept {
  static NeverDestroyed<Uses> value;  // tensors may be freed during static destruction
  return *value;
}

bool overlap(const MemoryBlock& a, const MemoryBlock& b) {
  const auto end = [](const MemoryBlock& block) { return static_cast<const std::byte*>(block.data) + block.bytes; };
  return std::less<>{}(static_cast<const std::byte*>(a.data), end(b)) &&
         std::less<>{}(static_cast<const std::byte*>(b.data), end(a));
}

}  // namespace

MemoryUse::MemoryUse(const UsedMemory& memory) noexcept : memory_(memory) {
  Uses& known = uses();
  const MutexLock lock(known.mutex);
  next_ = known.first;
  if (next_ != nullptr) next_->previous_ = this;
  known.first = this;
  known.count.store(known.count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

MemoryUse::~MemoryUse() {
  Uses& known = uses();
  const MutexLock lock(known.mutex);
  (previous_ != nullptr ? previous_->next_ : known.first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  known.count.store(known.count.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

bool has_no_user(const void* data, std::size_t bytes) noexcept {
  Uses& known = uses();
  if (known.count.load(std::memory_order_acquire) == 0) return true;
  try {
    std::vector<std::shared_ptr<MemoryUser>> users;
    {
      const MutexLock lock(known.mutex);
      for (const MemoryUse* use = known.first; use != nullptr; use = use->next_) {
        const auto is_block = [&](const MemoryBlock& block) { return overlap(block, {data, bytes}); };
        const UsedMemory& memory = use->memory_;
        if (std::any_of(memory.blocks.begin(), memory.blocks.end(), is_block)) users.push_back(memory.user);
      }
    }
    // without the lock, because an operation that completes may destroy a MemoryUse, which takes the lock
    bool is_free = true;
    for (const auto& user : users) {
      const bool has_ended = user->finish();
      log_warning("{} bytes of memory were freed while {} was using them: {}", bytes, user->name(),
                  has_ended ? "waited until it completed" : "it did not complete in time, so the memory is leaked");
      is_free = is_free && has_ended;
    }
    return is_free;
  } catch (const std::exception& error) {
    log_warning("leaking memory that operations may still use: {}", error.what());
    return false;
  }
}

}  // namespace lockstep::detail
