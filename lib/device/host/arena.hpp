// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The allocator over this process's segment.

#pragma once

#include <lockstep/device/arena.hpp>

#include "device/host/shared_segment.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace lockstep::detail {

/// Best fit over one segment; neighbours that are free become one. Thread-safe.
class Arena {
 public:
  /// Reserves up to `bytes`.
  explicit Arena(std::size_t bytes);

  /// The arena of this process. Never destroyed: tensors may outlive everything else.
  [[nodiscard]] static Arena& of_this_process();

  /// Null when there is none.
  [[nodiscard]] const std::shared_ptr<SharedSegment>& segment() const noexcept { return segment_; }
  [[nodiscard]] bool contains(const void* data, std::size_t bytes) const noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
    return offset < limit_ && bytes <= limit_ - offset;
  }
  [[nodiscard]] ArenaStatus status() const;

  /// A block that is backed by memory, aligned to 64 bytes, or null when there is no room.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Takes back what `allocate(bytes)` gave.
  void deallocate(void* block, std::size_t bytes) noexcept;
  /// Whether all of [data, data + bytes) is given out now.
  [[nodiscard]] bool is_allocated(const void* data, std::size_t bytes) const;
  /// Counts calls of `deallocate`.
  [[nodiscard]] std::uint64_t frees() const noexcept { return frees_.load(std::memory_order_acquire); }

 private:
  void add_free(std::size_t offset, std::size_t bytes);
  void remove_free(std::map<std::size_t, std::size_t>::iterator range);
  [[nodiscard]] bool grow(std::size_t bytes);

  std::shared_ptr<SharedSegment> segment_;
  std::string text_;
  std::byte* base_ = nullptr;
  std::size_t limit_ = 0;
  std::atomic<std::uint64_t> frees_{0};

  mutable std::mutex mutex_;  // guards all below
  std::map<std::size_t, std::size_t> free_by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_;  // (size, offset)
  std::size_t populated_ = 0;                                   // everything below is backed by memory
  std::size_t used_ = 0;
};

}  // namespace lockstep::detail
