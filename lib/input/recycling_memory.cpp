// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/mutex.hpp"
#include "input/node.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace lockstep::input {
namespace {

class RecyclingMemory final : public MemoryResource {
 public:
  explicit RecyclingMemory(std::shared_ptr<MemoryResource> source) : source_(std::move(source)) {}
  ~RecyclingMemory() override {
    for (const Block& block : kept_) {
      if (block.address != nullptr) source_->deallocate(block.address, block.bytes);
    }
  }

 private:
  struct Block {
    void* address = nullptr;
    std::size_t bytes = 0;
  };

  void* do_allocate(std::size_t bytes) override {
    {
      const detail::MutexLock lock(mutex_);
      for (std::size_t i = 0; i < kept_.size(); ++i) {  // the block that was freed last is most likely in the cache
        Block& block = kept_[(newest_ + kept_.size() - i) % kept_.size()];
        if (block.address != nullptr && block.bytes == bytes) return std::exchange(block.address, nullptr);
      }
    }
    return source_->allocate(bytes);
  }
  void do_deallocate(void* address, std::size_t bytes) noexcept override {
    Block freed{address, bytes};
    {
      const detail::MutexLock lock(mutex_);
      newest_ = (newest_ + 1) % kept_.size();
      std::swap(kept_[newest_], freed);
    }
    if (freed.address != nullptr) source_->deallocate(freed.address, freed.bytes);
  }

  std::shared_ptr<MemoryResource> source_;
  detail::Mutex mutex_;
  // ring buffer of freed blocks, in the order of freeing; the address of a reused block is null
  std::array<Block, 64> kept_ LOCKSTEP_GUARDED_BY(mutex_){};
  std::size_t newest_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<MemoryResource> recycling_memory(std::shared_ptr<MemoryResource> source) {
  return std::make_shared<RecyclingMemory>(source != nullptr ? std::move(source) : heap_memory_resource());
}

}  // namespace lockstep::input
