// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/host/arena.hpp"

#include <lockstep/device/tensor.hpp>

#include "support/every_choice.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

std::size_t interrupted_bytes = 0;  // a call for at least so many bytes is interrupted by a signal; 0: none
int interruptions = 0;

}  // namespace

extern "C" int posix_fallocate(int file, off_t offset, off_t bytes) {
  if (interrupted_bytes != 0 && static_cast<std::size_t>(bytes) >= interrupted_bytes) {
    ++interruptions;
    return EINTR;
  }
  static const auto real = reinterpret_cast<int (*)(int, off_t, off_t)>(dlsym(RTLD_NEXT, "posix_fallocate"));
  return real(file, offset, bytes);
}

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

TEST(Arena, names_the_limits_that_leave_too_little) {
  errno = ENOENT;  // left by another call
  Arena arena(2 * mebibyte);
  EXPECT_EQ(arena.segment(), nullptr);
  EXPECT_NE(arena.status().text.find("ulimit -v"), std::string::npos) << arena.status().text;
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

TEST(Arena, allocates_in_pieces_if_signals_interrupt_it) {
  Arena arena(64 * mebibyte);
  if (!arena.segment()) GTEST_SKIP() << arena.status().text;
  interrupted_bytes = 3 * mebibyte;
  void* const block = arena.allocate(20 * mebibyte);
  EXPECT_GT(interruptions, 2);
  interrupted_bytes = 1;
  void* const in_vain = arena.allocate(20 * mebibyte);
  interrupted_bytes = 0;
  EXPECT_EQ(in_vain, nullptr);
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, 20 * mebibyte);
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

/// An arena, and another mapping of its memory, as another process has it.
struct MappedTwice {
  Arena arena{16 * mebibyte};
  std::string why;
  std::shared_ptr<SharedSegment> other = arena.segment() ? SharedSegment::open(arena.segment()->name(), why) : nullptr;

  [[nodiscard]] std::span<std::byte> block(std::size_t bytes) {
    return {static_cast<std::byte*>(arena.allocate(bytes)), bytes};
  }
  [[nodiscard]] std::byte* elsewhere(const std::byte* data) const {
    return other->data() + (data - arena.segment()->data());
  }
};

TEST(Arena, takes_a_block_out_of_sharing_with_its_contents) {
  MappedTwice twice;
  if (!twice.other) GTEST_SKIP() << twice.why;
  Arena& arena = twice.arena;
  const auto before = twice.block(5 * 4096);
  const auto block = twice.block(3 * mebibyte + 100);
  const auto after = twice.block(5 * 4096);
  for (const auto part : {before, block, after}) std::fill(part.begin(), part.end(), std::byte{1});
  std::byte* const other = twice.elsewhere(block.data());
  other[mebibyte] = std::byte{2};
  arena.unshare(std::span(&block, 1));
  EXPECT_EQ(arena.unshares(), 1u);
  EXPECT_EQ(std::count(block.begin(), block.end(), std::byte{1}), 3 * mebibyte + 99);
  EXPECT_EQ(block[mebibyte], std::byte{2});
  std::fill(block.begin(), block.end(), std::byte{3});
  std::memset(other, 4, block.size());
  EXPECT_EQ(std::count(block.begin(), block.end(), std::byte{3}), 3 * mebibyte + 100);
  EXPECT_FALSE(arena.is_shared(block.data(), block.size()));
  EXPECT_FALSE(arena.is_shared(&block[100], 1));
  for (const auto part : {before, after}) {
    EXPECT_TRUE(arena.is_shared(part.data(), part.size()));
    EXPECT_EQ(std::count(part.begin(), part.end(), std::byte{1}), 5 * 4096);
    part.back() = std::byte{5};
    EXPECT_EQ(twice.elsewhere(part.data())[part.size() - 1], std::byte{5});
  }
}

TEST(Arena, gives_no_block_the_pages_that_have_left_sharing) {
  MappedTwice twice;
  if (!twice.other) GTEST_SKIP() << twice.why;
  Arena& arena = twice.arena;
  const auto block = twice.block(mebibyte);
  arena.unshare(std::span(&block, 1));
  EXPECT_TRUE(arena.is_allocated(block.data(), block.size()));
  arena.deallocate(block.data(), block.size());
  EXPECT_FALSE(arena.is_allocated(block.data(), 1));
  EXPECT_EQ(arena.status().used_bytes, 0u);
  std::size_t bytes = 0;
  while (const void* const next = arena.allocate(100'000)) {
    EXPECT_TRUE(arena.is_shared(next, 100'000));
    bytes += 100'000;
  }
  while (const void* const next = arena.allocate(64)) {
    EXPECT_TRUE(arena.is_shared(next, 64));
    bytes += 64;
  }
  EXPECT_GT(bytes, 14 * mebibyte);
}

TEST(Arena, takes_only_small_blocks_out_of_sharing_with_a_small_one) {
  MappedTwice twice;
  if (!twice.other) GTEST_SKIP() << twice.why;
  Arena& arena = twice.arena;
  const auto small = twice.block(100);
  const auto neighbour = twice.block(200);
  const auto large = twice.block(4096);
  neighbour[0] = large[0] = std::byte{1};
  arena.unshare(std::span(&small, 1));
  EXPECT_FALSE(arena.is_shared(small.data(), small.size()));
  EXPECT_FALSE(arena.is_shared(neighbour.data(), neighbour.size()));
  EXPECT_TRUE(arena.is_shared(large.data(), large.size()));
  // other processes still read what was written before
  EXPECT_EQ(*twice.elsewhere(neighbour.data()), std::byte{1});
  EXPECT_EQ(neighbour[0], std::byte{1});
  const auto next = twice.block(100);  // the rest of the page is not used any more
  EXPECT_TRUE(arena.is_shared(next.data(), next.size()));
  arena.deallocate(neighbour.data(), neighbour.size());
  EXPECT_FALSE(arena.is_allocated(neighbour.data(), 1));
}

/// A few calls on a new arena, and what must hold after each of them.
class SmallCase {
 public:
  [[nodiscard]] Arena& arena() noexcept { return arena_; }
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_.size(); }
  [[nodiscard]] bool has_unshared() const noexcept { return !private_pages_.empty(); }

  void allocate(std::size_t bytes) {
    Block block{static_cast<unsigned char*>(arena_.allocate(bytes)), bytes, ++marks_};
    ASSERT_NE(block.data, nullptr);
    EXPECT_EQ(address(block.data) % MemoryResource::alignment, 0U);
    for (const std::size_t page : private_pages_) EXPECT_FALSE(touches(block, page));
    for (const Block& other : blocks_) {
      EXPECT_TRUE(address(block.data) + bytes <= address(other.data) ||
                  address(other.data) + other.bytes <= address(block.data));
      const bool is_large = std::max(bytes, other.bytes) >= page_;
      for (std::size_t page = first_page(other); is_large && touches(other, page); ++page)
        EXPECT_FALSE(touches(block, page));
    }
    std::memset(block.data, block.mark, bytes);
    blocks_.push_back(block);
    check();
  }

  void deallocate(std::size_t k) {
    const Block block = blocks_[k];
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(k));
    arena_.deallocate(block.data, block.bytes);
    EXPECT_FALSE(arena_.is_allocated(block.data, 1));
    check();
  }

  void unshare(std::size_t k) {
    const Block& block = blocks_[k];
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(block.data), block.bytes);
    arena_.unshare(std::span(&bytes, 1));
    for (std::size_t page = first_page(block); touches(block, page); ++page) private_pages_.push_back(page);
    check();
  }

 private:
  struct Block {
    unsigned char* data;
    std::size_t bytes;
    unsigned char mark;
  };
  static std::uintptr_t address(const unsigned char* data) { return reinterpret_cast<std::uintptr_t>(data); }
  [[nodiscard]] std::size_t first_page(const Block& block) const { return address(block.data) / page_; }
  [[nodiscard]] bool touches(const Block& block, std::size_t page) const {
    return page >= first_page(block) && page * page_ < address(block.data) + block.bytes;
  }

  void check() const {
    for (const Block& block : blocks_) {
      EXPECT_TRUE(arena_.is_allocated(block.data, block.bytes));
      EXPECT_EQ(std::count(block.data, block.data + block.bytes, block.mark), block.bytes);
      const auto is_of_block = [&](std::size_t page) { return touches(block, page); };
      EXPECT_NE(arena_.is_shared(block.data, block.bytes),
                std::any_of(private_pages_.begin(), private_pages_.end(), is_of_block));
    }
    EXPECT_EQ(arena_.status().used_bytes == 0, blocks_.empty());
  }

  Arena arena_{16 * mebibyte};
  std::size_t page_ = detail::page_bytes();
  std::vector<Block> blocks_;
  std::vector<std::size_t> private_pages_;
  unsigned char marks_ = 0;
};

TEST(Arena, keeps_its_lists_in_every_order_of_few_calls) {
  if (!Arena(16 * mebibyte).segment()) GTEST_SKIP() << "no memory file";
  const std::array<std::size_t, 3> sizes{100, detail::page_bytes(), 2 * detail::page_bytes() + 1};
  EveryChoice choices;
  int cases = 0;
  do {
    SmallCase small;
    constexpr int calls = 5;
    for (int call = 0; call < calls; ++call) {
      const bool is_last = call + 1 == calls;  // the blocks are freed after it
      const std::size_t choice = choices.below(sizes.size() + (is_last ? 0 : 2 * small.blocks()));
      if (choice < sizes.size()) {
        small.allocate(sizes[choice]);
      } else if (const std::size_t k = choice - sizes.size(); k < small.blocks()) {
        small.deallocate(k);
      } else {
        small.unshare(k - small.blocks());
      }
    }
    while (small.blocks() > 0) small.deallocate(0);
    if (!small.has_unshared()) {  // all free ranges are one again
      const std::size_t populated = small.arena().status().populated_bytes;
      EXPECT_NE(small.arena().allocate(populated - SharedSegment::header_bytes), nullptr);
      EXPECT_EQ(small.arena().status().populated_bytes, populated);
    }
    ++cases;
  } while (!HasFailure() && choices.next());
  EXPECT_GT(cases, 1000);
}

TEST(Arena, loses_no_write_of_another_thread_when_pages_leave_sharing) {
  MappedTwice twice;
  if (!twice.other) GTEST_SKIP() << twice.why;
  constexpr std::size_t pages = 256;
  const auto counters = twice.block(pages * 4096);
  std::fill(counters.begin(), counters.end(), std::byte{0});
  std::atomic<bool> has_started{false};
  std::atomic<bool> is_over{false};
  std::uint32_t rounds = 0;
  std::thread writer([&] {
    while (!is_over || rounds < 10) {
      ++rounds;
      for (std::size_t page = 0; page < pages; ++page) {
        std::uint32_t count = 0;
        std::memcpy(&count, &counters[page * 4096], sizeof(count));
        ++count;
        std::memcpy(&counters[page * 4096], &count, sizeof(count));
      }
      has_started = true;
    }
  });
  while (!has_started) std::this_thread::yield();
  const auto half = counters.subspan(100, counters.size() / 2);
  twice.arena.unshare(std::span(&half, 1));
  twice.arena.unshare(std::span(&counters, 1));
  is_over = true;
  writer.join();
  for (std::size_t page = 0; page < pages; ++page) {
    std::uint32_t count = 0;
    std::memcpy(&count, &counters[page * 4096], sizeof(count));
    ASSERT_EQ(count, rounds) << page;
  }
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

TEST(Arena, belongs_to_the_parent_after_a_fork) {
  if (!arena_status().is_available) GTEST_SKIP() << arena_status().text;
  constexpr std::size_t bytes = 100'000;
  const auto resource = arena_memory_resource();
  auto* const before = static_cast<char*>(resource->allocate(bytes));
  std::memset(before, 1, bytes);
  const std::size_t used = arena_status().used_bytes;
  const pid_t child = fork();
  if (child == 0) {
    const bool inherits = before[0] == 1 && before[bytes - 1] == 1;
    std::memset(before, 2, bytes);
    resource->deallocate(before, bytes);
    auto* const own = static_cast<char*>(resource->allocate(bytes));
    const bool is_on_heap = !is_in_arena(own, bytes);
    std::memset(own, 3, bytes);
    resource->deallocate(own, bytes);
    _exit(inherits && is_on_heap ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(std::count(before, before + bytes, 1), static_cast<std::ptrdiff_t>(bytes));
  EXPECT_EQ(arena_status().used_bytes, used);
  resource->deallocate(before, bytes);
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
