// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The allocator of the arena: it manages the shared segment of this process, a range of address space backed by a
// memory file that other processes of this node can map.

#pragma once

#include "base/mutex.hpp"

#include <lockstep/device/arena.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace lockstep::detail {

/// Size of a page of this system.
[[nodiscard]] std::size_t page_bytes() noexcept;

/// The name by which another process finds a segment. Trivially copyable: it is sent as bytes.
struct SegmentName {
  std::uint64_t nonce = 0;  ///< 0 if there is no segment
  std::uint64_t bytes = 0;
  std::int64_t process = 0;
  std::int32_t file = -1;
};

/// A mapping of a segment; unmapped by the destructor. The first page of a segment belongs to this class. It contains
/// the nonce, by which a process that opens the file recognizes the intended segment.
class SharedSegment {
 public:
  static constexpr std::size_t header_bytes = 4096;

  /// Creates a memory file and reserves `bytes`, or less if address space is limited. Memory is used as pages are
  /// touched. Returns null if this system allows no such file, and sets `why` to the reason; otherwise sets `why` to
  /// the kind of file.
  [[nodiscard]] static std::shared_ptr<SharedSegment> create(std::size_t bytes, std::string& why);
  /// Maps the segment of another process, or this process's own once more. Returns null if that is not allowed, or if
  /// `name` does not lead to the intended segment, and sets `why` to the reason.
  [[nodiscard]] static std::shared_ptr<SharedSegment> open(const SegmentName& name, std::string& why);

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const SegmentName& name() const noexcept { return name_; }
  /// Backs [offset, offset + bytes), whole pages, with zeroed memory; returns false if the system is out of memory.
  [[nodiscard]] bool populate(std::size_t offset, std::size_t bytes) noexcept;
  /// Gives this mapping a private copy of [offset, offset + bytes), whole pages, at the same address: other mappings of
  /// the file no longer see writes of this mapping, and this mapping no longer sees theirs. No write of another thread
  /// is lost on the way. Aborts the process if the system is out of memory.
  void make_private(std::size_t offset, std::size_t bytes) noexcept;
  /// In a child process: from now on its writes to [offset, offset + bytes), whole pages, are seen by no other process.
  void make_private_in_child(std::size_t offset, std::size_t bytes) noexcept;
  /// Frees the file's pages of [offset, offset + bytes), whole pages that were made private: other mappings read zeros.
  void discard_shared(std::size_t offset, std::size_t bytes) noexcept;
  /// Frees the private pages of [offset, offset + bytes), whole pages whose contents are no longer needed.
  void discard_private(std::size_t offset, std::size_t bytes) noexcept;

 private:
  SharedSegment(std::byte* data, std::size_t size, int file, const SegmentName& name) noexcept
      : data_(data), size_(size), file_(file), name_(name) {}
  [[nodiscard]] bool map_private(std::size_t offset, std::size_t bytes) noexcept;

  std::byte* data_;
  std::size_t size_;
  int file_;  ///< -1 for a segment of another process
  SegmentName name_;
};

/// A best-fit allocator over one segment; adjacent free ranges are merged. Thread-safe.
///
/// A block of a page or more shares no page with other blocks, so it can be made private without them.
class Arena {
 public:
  /// Reserves at most `bytes`.
  explicit Arena(std::size_t bytes);

  /// The arena of this process. Never destroyed: tensors may outlive everything else.
  [[nodiscard]] static Arena& of_this_process();

  /// Null if there is no segment.
  [[nodiscard]] const std::shared_ptr<SharedSegment>& segment() const noexcept { return segment_; }
  [[nodiscard]] bool contains(const void* data, std::size_t bytes) const noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
    return offset < limit_ && bytes <= limit_ - offset;
  }
  [[nodiscard]] ArenaStatus status() const;

  /// A block that is backed by memory and aligned to 64 bytes, or null if the arena is full, and in a child process
  /// that fork() made.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Frees a block from `allocate(bytes)`.
  void deallocate(void* block, std::size_t bytes) noexcept;
  /// Whether all of [data, data + bytes) is allocated now.
  [[nodiscard]] bool is_allocated(const void* data, std::size_t bytes) const;
  /// The number of calls of `deallocate` so far.
  [[nodiscard]] std::uint64_t frees() const noexcept { return frees_.load(std::memory_order_acquire); }

  /// Makes all pages of `ranges` private, because another process may still write to them: they get private memory at
  /// the same addresses, with the same contents, and are never shared again; once they are freed, no block gets them.
  /// The first and the last page of a range become private as a whole: their bytes outside of the range belong to the
  /// same block or to blocks of less than a page. The contents that these bytes have now, written by this or by other
  /// processes, are kept both in this process and for the other processes. Ignores ranges outside of the arena. Aborts
  /// the process if the system is out of memory. Cost: one copy of the pages.
  void unshare(std::span<const std::span<std::byte>> ranges) noexcept;
  /// Whether other processes can access [data, data + bytes).
  [[nodiscard]] bool is_shared(const void* data, std::size_t bytes) const noexcept;
  /// The number of calls of `unshare` so far. A call is counted before its first page becomes private: as long as the
  /// number has not changed, memory that was shared still is, and other processes see the writes to it.
  [[nodiscard]] std::uint64_t unshares() const noexcept { return unshares_.load(std::memory_order_acquire); }

 private:
  /// Ranges by their offset; they do not overlap.
  using Ranges = std::map<std::size_t, std::size_t>;

  // around fork(), which must not copy the arena in the middle of a change
  void before_fork() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void after_fork_in_parent() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
  void after_fork_in_child() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS;

  [[nodiscard]] std::size_t block_bytes(std::size_t bytes) const noexcept;
  [[nodiscard]] std::size_t offset_of(const void* data) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
  }
  /// The smallest free range that has room for a block of `bytes`; the end if there is none.
  [[nodiscard]] Ranges::iterator best_free(std::size_t bytes) LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] std::size_t begin_in(std::size_t free_offset, std::size_t bytes) const noexcept;
  void add_free(std::size_t offset, std::size_t bytes) LOCKSTEP_REQUIRES(mutex_);
  void add_free_merged(std::size_t offset, std::size_t bytes) LOCKSTEP_REQUIRES(mutex_);
  void remove_free(Ranges::iterator range) LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] bool grow(std::size_t bytes) LOCKSTEP_REQUIRES(mutex_);
  enum class Originals : std::uint8_t { keep, discard };
  void unshare_pages(std::size_t begin, std::size_t end, Originals originals) LOCKSTEP_REQUIRES(mutex_);
  void quarantine_free(std::size_t begin, std::size_t end) LOCKSTEP_REQUIRES(mutex_);
  void quarantine(std::size_t begin, std::size_t end) LOCKSTEP_REQUIRES(mutex_);

  std::shared_ptr<SharedSegment> segment_;
  std::string text_;
  std::byte* base_ = nullptr;
  std::size_t limit_ = 0;
  const std::size_t page_bytes_;
  std::atomic<std::uint64_t> frees_{0};
  std::atomic<std::uint64_t> unshares_{0};
  std::atomic<bool> is_copy_{false};  ///< this process is a child of the one that made the arena

  mutable Mutex mutex_;
  Ranges free_by_offset_ LOCKSTEP_GUARDED_BY(mutex_);
  Ranges private_ LOCKSTEP_GUARDED_BY(mutex_);      // pages that `unshare` made private
  Ranges quarantined_ LOCKSTEP_GUARDED_BY(mutex_);  // freed parts of those pages
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_ LOCKSTEP_GUARDED_BY(mutex_);  // (size, offset)
  std::size_t populated_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // everything below this offset is backed by memory
  std::size_t used_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::detail
