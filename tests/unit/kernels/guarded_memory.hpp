// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory next to inaccessible pages, so that a load or store past its end is a fault.

#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace lockstep::test {

class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t capacity) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    size_ = (capacity + page_ - 1) / page_ * page_;
    void* const address = mmap(nullptr, size_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::runtime_error("mmap");
    begin_ = static_cast<std::byte*>(address) + page_;
    if (mprotect(begin_, size_, PROT_READ | PROT_WRITE) != 0) throw std::runtime_error("mprotect");
  }
  ~GuardedMemory() { munmap(begin_ - page_, size_ + 2 * page_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  /// The first `bytes` bytes of the memory.
  [[nodiscard]] std::byte* first(std::size_t) const { return begin_; }
  /// The last `bytes` bytes of the memory.
  [[nodiscard]] std::byte* last(std::size_t bytes) const { return begin_ + size_ - bytes; }

 private:
  std::size_t page_;
  std::size_t size_;
  std::byte* begin_;
};

}  // namespace lockstep::test
