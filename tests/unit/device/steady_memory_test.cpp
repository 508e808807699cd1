// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/memory_resources.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace lockstep::detail {
namespace {

const std::vector<std::size_t> sizes{64, 100, 64, 0, 64, 100};

std::vector<void*> blocks_of(MemoryResource& memory) {
  std::vector<void*> blocks;
  for (const std::size_t bytes : sizes) blocks.push_back(memory.allocate(bytes));
  return blocks;
}

TEST(SteadyMemory, gives_the_same_blocks_for_the_same_requests_whatever_the_order_in_which_they_were_freed) {
  const auto memory = steady_memory();
  const std::vector<void*> first = blocks_of(*memory);
  EXPECT_EQ(std::set<void*>(first.begin(), first.end()).size(), first.size());
  for (std::size_t k = 0; k < first.size(); ++k) memory->deallocate(first[k], sizes[k]);
  const std::vector<void*> second = blocks_of(*memory);
  EXPECT_EQ(second, first);
  for (std::size_t k = first.size(); k-- > 0;) memory->deallocate(first[k], sizes[k]);
  const std::vector<void*> third = blocks_of(*memory);
  EXPECT_EQ(third, first);
  for (std::size_t k = 0; k < first.size(); ++k) memory->deallocate(first[k], sizes[k]);
}

TEST(SteadyMemory, gives_no_block_twice_and_aligns_all) {
  const auto memory = steady_memory();
  const std::vector<void*> held = blocks_of(*memory);
  const std::vector<void*> others = blocks_of(*memory);
  std::set<void*> all(held.begin(), held.end());
  all.insert(others.begin(), others.end());
  EXPECT_EQ(all.size(), 2 * sizes.size());
  for (const void* block : all) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % MemoryResource::alignment, 0U);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    memory->deallocate(held[k], sizes[k]);
    memory->deallocate(others[k], sizes[k]);
  }
}

/// Counts the blocks that are allocated.
class Counting final : public MemoryResource {
 public:
  int out = 0;

 private:
  void* do_allocate(std::size_t bytes) override {
    ++out;
    return heap_->allocate(bytes);
  }
  void do_deallocate(void* block, std::size_t bytes) noexcept override {
    --out;
    heap_->deallocate(block, bytes);
  }
  std::shared_ptr<MemoryResource> heap_ = heap_memory_resource();
};

TEST(SteadyMemory, keeps_a_bounded_number_of_bytes_and_frees_all_at_its_end) {
  const auto heap = std::make_shared<Counting>();
  const auto before = default_memory_resource();
  set_default_memory_resource(heap);
  auto memory = steady_memory(250);
  std::vector<void*> blocks;
  for (int k = 0; k < 5; ++k) blocks.push_back(memory->allocate(100));
  EXPECT_EQ(heap->out, 5);
  for (void* block : blocks) std::memset(block, 1, 100);
  for (void* block : blocks) memory->deallocate(block, 100);
  EXPECT_EQ(heap->out, 2);
  blocks.clear();
  for (int k = 0; k < 5; ++k) blocks.push_back(memory->allocate(100));
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), 5U);
  for (std::size_t k = blocks.size(); k-- > 0;) memory->deallocate(blocks[k], 100);
  memory.reset();
  EXPECT_EQ(heap->out, 0);
  set_default_memory_resource(before);
}

TEST(SteadyMemory, serves_several_threads) {
  const auto memory = steady_memory(1000);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int round = 0; round < 500; ++round) {
        std::vector<void*> blocks;
        for (int k = 0; k < 8; ++k) {
          blocks.push_back(memory->allocate(100));
          std::memset(blocks.back(), t, 100);
        }
        for (void* block : blocks) {
          EXPECT_EQ(static_cast<unsigned char*>(block)[99], t);
          memory->deallocate(block, 100);
        }
      }
    });
  }
}

}  // namespace
}  // namespace lockstep::detail
