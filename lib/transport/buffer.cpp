// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/buffer.hpp"

#include "base/leak.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

namespace lockstep::detail {
namespace {

/// The index of the smallest size class whose buffers have at least `bytes` bytes.
std::size_t class_of_demand(std::size_t bytes) noexcept {
  return static_cast<std::size_t>(std::bit_width((bytes - 1) / line_bytes));
}
/// The index of the largest size class whose buffers have at most `bytes` bytes.
std::size_t class_of_buffer(std::size_t bytes) noexcept {
  return static_cast<std::size_t>(std::bit_width(bytes / line_bytes)) - 1;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) {
  const std::size_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : line_bytes;
  size_ = round_up(bytes, alignment);
  if (size_ == 0) return;
  block_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, size_)));
  if (!block_) throw std::bad_alloc();
  // advice only: without huge pages the buffer works, too, but is a little slower
  if (alignment == huge_page_bytes) static_cast<void>(madvise(block_.get(), size_, MADV_HUGEPAGE));
}

void Buffer::leak() noexcept {
  if (block_) detail::leak(block_.release());
}

void Buffer::Free::operator()(std::byte* block) const noexcept { std::free(block); }

Buffer Workspace::take(std::size_t bytes) {
  if (bytes == 0) return {};
  if (--takes_left_ == 0) free_unused();
  const std::size_t index = class_of_demand(bytes);
  if (index >= classes_.size()) throw std::bad_alloc();
  SizeClass& of_size = classes_[index];
  if (of_size.spare.empty()) return Buffer(line_bytes << index);
  Buffer buffer = std::move(of_size.spare.back());
  of_size.spare.pop_back();
  of_size.unused = std::min(of_size.unused, of_size.spare.size());
  return buffer;
}

void Workspace::give_back(Buffer&& buffer) {
  if (buffer.size() == 0) return;
  std::vector<Buffer>& spare = classes_[class_of_buffer(buffer.size())].spare;
  Buffer kept = std::move(buffer);
  try {
    spare.push_back(std::move(kept));
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the buffer is freed
  }
}

std::size_t Workspace::spare_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const SizeClass& of_size : classes_) {
    for (const Buffer& buffer : of_size.spare) bytes += buffer.size();
  }
  return bytes;
}

void Workspace::free_unused() noexcept {
  takes_left_ = least_history;
  for (SizeClass& of_size : classes_) {
    of_size.spare.resize(of_size.spare.size() - of_size.unused);
    of_size.unused = of_size.spare.size();
    takes_left_ += history * of_size.spare.size();
  }
}

}  // namespace lockstep::detail
