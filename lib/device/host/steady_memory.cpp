// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/memory_resources.hpp"

#include "base/mutex.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace {

class SteadyMemory final : public MemoryResource {
 public:
  explicit SteadyMemory(std::size_t most_kept_bytes) : most_kept_bytes_(most_kept_bytes) {}
  ~SteadyMemory() override {
    for (auto& [bytes, blocks] : blocks_of_size_) {
      for (const Block& block : blocks.all) release(block, bytes);
    }
  }

 private:
  /// Size of the header in front of each returned block. The header contains the block's index in Blocks::all.
  static constexpr std::size_t header_bytes = alignment;

  struct Block {
    std::byte* start = nullptr;
    std::shared_ptr<MemoryResource> source;
    bool is_free = false;
  };
  struct Blocks {
    std::vector<Block> all;  // a request gets the first free block
    std::size_t next = 0;    // no block before this index is free
  };

  void* do_allocate(std::size_t bytes) override {
    const MutexLock lock(mutex_);
    Blocks& blocks = blocks_of_size_[bytes];
    while (blocks.next < blocks.all.size() && !blocks.all[blocks.next].is_free) ++blocks.next;
    if (blocks.next == blocks.all.size()) {
      add_block(blocks, bytes);
    } else {
      kept_bytes_ -= bytes;
    }
    Block& taken = blocks.all[blocks.next++];
    taken.is_free = false;
    return taken.start + header_bytes;
  }

  static void add_block(Blocks& blocks, std::size_t bytes) {
    Block& added = blocks.all.emplace_back(Block{nullptr, default_memory_resource()});
    try {
      added.start = static_cast<std::byte*>(added.source->allocate(header_bytes + bytes));
    } catch (...) {
      blocks.all.pop_back();
      throw;
    }
    note_place(blocks, blocks.all.size() - 1);
  }

  void do_deallocate(void* address, std::size_t bytes) noexcept override {
    const MutexLock lock(mutex_);
    std::size_t place = 0;
    std::memcpy(&place, static_cast<std::byte*>(address) - header_bytes, sizeof(place));
    Blocks& blocks = blocks_of_size_.find(bytes)->second;
    if (kept_bytes_ + bytes <= most_kept_bytes_) {
      blocks.all[place].is_free = true;
      kept_bytes_ += bytes;
      blocks.next = std::min(blocks.next, place);
      return;
    }
    release(blocks.all[place], bytes);
    if (place + 1 < blocks.all.size()) {
      blocks.all[place] = std::move(blocks.all.back());
      note_place(blocks, place);
      if (blocks.all[place].is_free) blocks.next = std::min(blocks.next, place);
    }
    blocks.all.pop_back();
    blocks.next = std::min(blocks.next, blocks.all.size());
  }

  static void note_place(const Blocks& blocks, std::size_t place) noexcept {
    std::memcpy(blocks.all[place].start, &place, sizeof(place));
  }
  static void release(const Block& block, std::size_t bytes) noexcept {
    block.source->deallocate(block.start, header_bytes + bytes);
  }

  const std::size_t most_kept_bytes_;
  Mutex mutex_;  // also guards the headers of blocks
  std::unordered_map<std::size_t, Blocks> blocks_of_size_ LOCKSTEP_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<MemoryResource> steady_memory(std::size_t most_kept_bytes) {
  return std::make_shared<SteadyMemory>(most_kept_bytes);
}

}  // namespace lockstep::detail
