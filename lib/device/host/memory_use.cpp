// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/memory_use.hpp"

#include "base/log.hpp"
#include "base/mutex.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <utility>

namespace lockstep::detail {
namespace {

struct Uses {
  Mutex mutex;
  std::vector<const MemoryUse*> all LOCKSTEP_GUARDED_BY(mutex);
  std::atomic<std::size_t> count{0};  // of the elements of `all`, but for one that is just being added or removed
};
Uses& uses() {
  static auto* const value = new Uses;  // never destroyed: tensors may be freed during static destruction
  return *value;
}

bool overlap(const MemoryBlock& a, const MemoryBlock& b) {
  const auto end = [](const MemoryBlock& block) { return static_cast<const std::byte*>(block.data) + block.bytes; };
  return std::less<>{}(static_cast<const std::byte*>(a.data), end(b)) &&
         std::less<>{}(static_cast<const std::byte*>(b.data), end(a));
}

}  // namespace

MemoryUse::MemoryUse(std::shared_ptr<MemoryUser> user, MemoryBlocks blocks)
    : user_(std::move(user)), blocks_(std::move(blocks)) {
  Uses& known = uses();
  {
    const MutexLock lock(known.mutex);
    known.all.push_back(this);
  }
  ++known.count;
}

MemoryUse::~MemoryUse() {
  Uses& known = uses();
  {
    const MutexLock lock(known.mutex);
    std::erase(known.all, this);
  }
  --known.count;
}

bool has_no_user(const void* data, std::size_t bytes) noexcept {
  Uses& known = uses();
  if (known.count.load(std::memory_order_acquire) == 0) return true;
  try {
    std::vector<std::shared_ptr<MemoryUser>> users;
    {
      const MutexLock lock(known.mutex);
      for (const MemoryUse* const use : known.all) {
        const auto is_block = [&](const MemoryBlock& block) { return overlap(block, {data, bytes}); };
        if (std::any_of(use->blocks_->begin(), use->blocks_->end(), is_block)) users.push_back(use->user_);
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
