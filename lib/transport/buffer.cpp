// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/buffer.hpp"

#include "base/leak.hpp"
#include "base/processor.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace lockstep::detail {

Buffer::Buffer(std::size_t bytes) {
  const std::size_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : line_bytes;
  size_ = round_up(bytes, alignment);
  if (size_ == 0) return;
  block_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, size_)));
  if (!block_) throw std::bad_alloc();
  // advice only: without huge pages everything works, a little slower
  if (alignment == huge_page_bytes) static_cast<void>(madvise(block_.get(), size_, MADV_HUGEPAGE));
}

void Buffer::leak() noexcept {
  if (block_) detail::leak(block_.release());
}

void Buffer::Free::operator()(std::byte* block) const noexcept { std::free(block); }

Buffer Workspace::take(std::size_t bytes) {
  // the smallest spare buffer that is large enough
  auto best = spare_.end();
  for (auto it = spare_.begin(); it != spare_.end(); ++it) {
    if (it->size() >= bytes && (best == spare_.end() || it->size() < best->size())) best = it;
  }
  if (best == spare_.end()) {
    // none is large enough: free the largest one before allocating
    const auto largest = std::max_element(spare_.begin(), spare_.end(),
                                          [](const Buffer& a, const Buffer& b) { return a.size() < b.size(); });
    if (largest != spare_.end()) spare_.erase(largest);
    return Buffer(bytes);
  }
  Buffer buffer = std::move(*best);
  spare_.erase(best);
  return buffer;
}

void Workspace::give_back(Buffer&& buffer) {
  if (buffer.size() != 0) spare_.push_back(std::move(buffer));
}

}  // namespace lockstep::detail
