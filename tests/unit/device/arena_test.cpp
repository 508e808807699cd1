// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/arena.hpp"

#include <lockstep/device/tensor.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>

namespace lockstep::test {
namespace {

using detail::Arena;
using detail::SharedSegment;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

TEST(Arena, gives_aligned_blocks_that_do_not_overlap) {
  Arena arena(64 * mebibyte);
  if (!arena.segment()) GTEST_SKIP() << arena.status().text;
  std::mt19937 random(1);
  struct Block {
    unsigned char* data;
    std::size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  for (int i = 0; i < 3000; ++i) {
    if (!blocks.empty() && random() % 3 == 0) {
      const std::size_t k = random() % blocks.size();
      const Block block = blocks[k];
      for (std::size_t b = 0; b < block.bytes; ++b) ASSERT_EQ(block.data[b], block.mark);
      arena.deallocate(block.data, block.bytes);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(k));
      continue;
    }
    const std::size_t bytes = random() % 20'000;
    auto* const data = static_cast<unsigned char*>(arena.allocate(bytes));
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % MemoryResource::alignment, 0u);
    EXPECT_TRUE(arena.contains(data, bytes));
    EXPECT_TRUE(arena.is_allocated(data, bytes));
    std::memset(data, i, bytes);
    blocks.push_back({data, bytes, static_cast<unsigned char>(i)});
  }
  for (const Block& block : blocks) arena.deallocate(block.data, block.bytes);
  EXPECT_EQ(arena.status().used_bytes, 0u);
}

TEST(Arena, merges_adjacent_free_ranges) {
  Arena arena(32 * mebibyte);
  if (!arena.segment()) GTEST_SKIP() << arena.status().text;
  void* const a = arena.allocate(6 * mebibyte);
  void* const b = arena.allocate(6 * mebibyte);
  void* const c = arena.allocate(6 * mebibyte);
  const std::size_t populated = arena.status().populated_bytes;
  arena.deallocate(a, 6 * mebibyte);
  arena.deallocate(c, 6 * mebibyte);
  EXPECT_FALSE(arena.is_allocated(a, 1));
  EXPECT_TRUE(arena.is_allocated(b, 6 * mebibyte));
  EXPECT_FALSE(arena.is_allocated(b, 6 * mebibyte + 1));
  arena.deallocate(b, 6 * mebibyte);
  void* const all = arena.allocate(18 * mebibyte);
  EXPECT_EQ(all, a);
  EXPECT_EQ(arena.status().populated_bytes, populated);
  EXPECT_EQ(arena.frees(), 3u);
}

TEST(Arena, reports_that_it_is_full) {
  Arena arena(16 * mebibyte);
  if (!arena.segment()) GTEST_SKIP() << arena.status().text;
  EXPECT_EQ(arena.allocate(17 * mebibyte), nullptr);
  void* const most = arena.allocate(15 * mebibyte);
  EXPECT_NE(most, nullptr);
  EXPECT_EQ(arena.allocate(2 * mebibyte), nullptr);
  arena.deallocate(most, 15 * mebibyte);
  EXPECT_NE(arena.allocate(15 * mebibyte), nullptr);
}

TEST(Arena, does_not_contain_other_memory) {
  Arena arena(16 * mebibyte);
  if (!arena.segment()) GTEST_SKIP() << arena.status().text;
  auto* const block = static_cast<std::byte*>(arena.allocate(64));
  const int elsewhere = 0;
  EXPECT_FALSE(arena.contains(&elsewhere, sizeof(elsewhere)));
  EXPECT_FALSE(arena.contains(nullptr, 0));
  EXPECT_FALSE(arena.contains(block, 17 * mebibyte));
}

TEST(SharedSegment, has_the_same_bytes_in_every_mapping) {
  std::string why;
  const auto segment = SharedSegment::create(16 * mebibyte, why);
  if (!segment) GTEST_SKIP() << why;
  ASSERT_TRUE(segment->populate(mebibyte, mebibyte));
  const auto other = SharedSegment::open(segment->name(), why);
  if (!other) GTEST_SKIP() << why;
  EXPECT_NE(segment->data(), other->data());
  segment->data()[mebibyte] = std::byte{42};
  EXPECT_EQ(other->data()[mebibyte], std::byte{42});
}

TEST(SharedSegment, is_not_confused_with_another_one) {
  std::string why;
  const auto segment = SharedSegment::create(16 * mebibyte, why);
  if (!segment) GTEST_SKIP() << why;
  detail::SegmentName name = segment->name();
  name.nonce += 2;
  EXPECT_EQ(SharedSegment::open(name, why), nullptr);
  EXPECT_NE(why.find("not the memory of that rank"), std::string::npos) << why;
  name = segment->name();
  name.file = 9999;
  EXPECT_EQ(SharedSegment::open(name, why), nullptr);
  EXPECT_NE(why.find("cannot open"), std::string::npos) << why;
}

TEST(DefaultMemoryResource, provides_the_memory_of_tensors) {
  const auto before = default_memory_resource();
  EXPECT_FALSE(is_in_arena(Tensor(DType::f32, Shape{4}).data(), 16));
  set_default_memory_resource(arena_memory_resource());
  const Tensor tensor(DType::f32, Shape{4});
  if (arena_status().is_available) {
    EXPECT_TRUE(is_in_arena(tensor.data(), 16));
  }
  set_default_memory_resource(before);
}

TEST(DefaultMemoryResource, aligns_every_tensor) {
  for (const auto& resource : {heap_memory_resource(), arena_memory_resource()}) {
    for (int n = 0; n < 50; ++n) {
      const Tensor tensor(DType::u8, Shape{n}, resource);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
    }
  }
}

}  // namespace
}  // namespace lockstep::test
