// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Replaces the operators of a program by ones that call a function of it first. Include it in one source of a program
// only.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace lockstep::test {

/// Before each allocation by `operator new`. The source that includes this header defines it; what it throws, the
/// allocation throws.
void at_allocation();

/// Number of blocks that are allocated by `operator new`.
inline std::atomic<long> held_blocks{0};

[[gnu::noinline]] inline void* allocate(std::size_t bytes, std::size_t alignment) {
  at_allocation();
  void* const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  held_blocks.fetch_add(1, std::memory_order_relaxed);
  return block;
}

inline void free_block(void* block) noexcept {
  if (block != nullptr) held_blocks.fetch_sub(1, std::memory_order_relaxed);
  std::free(block);
}

}  // namespace lockstep::test

void* operator new(std::size_t bytes) { return lockstep::test::allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return lockstep::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
// not inlined: the compiler would warn of a mismatch between allocation and deallocation functions
[[gnu::noinline]] void operator delete(void* block) noexcept { lockstep::test::free_block(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { lockstep::test::free_block(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { lockstep::test::free_block(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  lockstep::test::free_block(block);
}
