// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Replaces the operators of a program by ones that call a function of it first. Include it in one source of a program
// only.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace lockstep::test {

/// Before each allocation by `operator new`. The source that includes this header defines it; what it throws, the
/// allocation throws.
void at_allocation();

[[gnu::noinline]] inline void* allocate(std::size_t bytes, std::size_t alignment) {
  at_allocation();
  void* const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace lockstep::test

void* operator new(std::size_t bytes) { return lockstep::test::allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return lockstep::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
// not inlined: the compiler would warn of a mismatch between allocation and deallocation functions
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
