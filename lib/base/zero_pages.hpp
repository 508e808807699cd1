// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Zeroed memory in pages of its own. A page becomes resident when it is used, so memory of which little is used costs
// little, and a large block costs as little time as a small one: calloc clears memory that has been used before.

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace lockstep::detail {

class ZeroPages {
 public:
  /// Throws std::bad_alloc. Costs a system call, as the destructor does; none if `bytes` is 0.
  explicit ZeroPages(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(data);
  }
  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;
  ~ZeroPages() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  /// Page-aligned; null if the size is 0.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace lockstep::detail
