// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arena of this process: an allocator over a shared segment. The segment is a range of addresses that is backed by
// a memory file, which other processes of this node can map.

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
  std::uint64_t nonce = 0;  ///< random number of the segment; 0 if there is no segment
  std::uint64_t bytes = 0;
  std::int64_t process = 0;  ///< id of the process that created the segment
  std::int32_t file = -1;    ///< file descriptor in that process
};

/// A mapping of a segment. The destructor unmaps the segment. The first page of a segment is reserved for this class,
/// and contains the nonce. A process that opens the file compares the nonce to recognize the intended segment.
class SharedSegment {
 public:
  static constexpr std::size_t header_bytes = 4096;

  /// Creates a memory file and reserves addresses for `bytes` bytes, or for fewer bytes if limits of the process
  /// require it. A page uses memory only after it is touched. On success, sets `why` to the kind of file. If this
  /// system does not permit such a file, returns null and sets `why` to the reason.
  [[nodiscard]] static std::shared_ptr<SharedSegment> create(std::size_t bytes, std::string& why);
  /// Maps the segment of another process, or maps the segment of this process again. If the system does not permit
  /// this, or if `name` does not lead to the intended segment, returns null and sets `why` to the reason.
  [[nodiscard]] static std::shared_ptr<SharedSegment> open(const SegmentName& name, std::string& why);

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const SegmentName& name() const noexcept { return name_; }
  /// Backs [offset, offset + bytes) with zeroed memory. Returns false if the system is out of memory. In this function
  /// and the functions below, [offset, offset + bytes) consists of whole pages.
  [[nodiscard]] bool populate(std::size_t offset, std::size_t bytes) noexcept;
  /// Replaces [offset, offset + bytes) in this mapping by a private copy at the same addresses. Other mappings of the
  /// file no longer see writes to this mapping, and this mapping no longer sees writes to other mappings. No write that
  /// another thread makes during the call is lost. Aborts the process if the system is out of memory.
  void make_private(std::size_t offset, std::size_t bytes) noexcept;
  /// For a child process of fork(): no other process sees later writes of the child to [offset, offset + bytes).
  void make_private_in_child(std::size_t offset, std::size_t bytes) noexcept;
  /// Frees the file's pages of [offset, offset + bytes), which must be private in this mapping. Other mappings read
  /// zeros.
  void discard_shared(std::size_t offset, std::size_t bytes) noexcept;
  /// Frees the private pages of [offset, offset + bytes). The contents of these pages are lost.
  void discard_private(std::size_t offset, std::size_t bytes) noexcept;

 private:
  SharedSegment(std::byte* data, std::size_t size, int file, const SegmentName& name) noexcept
      : data_(data), size_(size), file_(file), name_(name) {}
  /// A segment that owns the mapping and, unless it is negative, `file`. Releases both if it throws std::bad_alloc.
  [[nodiscard]] static std::shared_ptr<SharedSegment> own(std::byte* data, std::size_t size, int file,
                                                          const SegmentName& name);
  [[nodiscard]] bool map_private(std::size_t offset, std::size_t bytes) noexcept;

  std::byte* data_;
  std::size_t size_;
  int file_;  ///< -1 if `open` made this mapping
  SegmentName name_;
};

/// A best-fit allocator over one segment; adjacent free ranges are merged. Thread-safe.
///
/// A block of at least one page shares no page with other blocks, so that the block can be made private separately.
class Arena {
 public:
  /// Reserves at most `bytes` bytes.
  explicit Arena(std::size_t bytes);

  /// The arena of this process. Never destroyed: tensors may outlive everything else.
  [[nodiscard]] static Arena& of_this_process();

  /// The segment; null if it could not be created.
  [[nodiscard]] const std::shared_ptr<SharedSegment>& segment() const noexcept { return segment_; }
  [[nodiscard]] bool contains(const void* data, std::size_t bytes) const noexcept {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
    return offset < limit_ && bytes <= limit_ - offset;
  }
  [[nodiscard]] ArenaStatus status() const;

  /// Returns a block that is backed by memory and aligned to 64 bytes. Returns null if the arena is full, and always in
  /// a child process of fork().
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Frees a block that `allocate(bytes)` returned; leaks it if there is no memory for the lists of free blocks. Does
  /// nothing in a child process of fork().
  void deallocate(void* block, std::size_t bytes) noexcept;
  /// Whether all of [data, data + bytes) is allocated now.
  [[nodiscard]] bool is_allocated(const void* data, std::size_t bytes) const;
  /// The number of calls of `deallocate` so far.
  [[nodiscard]] std::uint64_t frees() const noexcept { return frees_.load(std::memory_order_acquire); }

  /// Makes all pages of `ranges` private. Called if another process may still write to these ranges. The pages get
  /// private memory at the same addresses, with the same contents, and are never shared again. After their blocks are
  /// freed, no block gets these pages. The first and the last page of a range become private as a whole. The bytes of
  /// these two pages outside of the range belong to the same block or to blocks of less than a page. The present
  /// contents of these bytes are kept both in this process and for the other processes. Ignores ranges outside of the
  /// arena. Aborts the process if the system is out of memory. Cost: one copy of the pages.
  void unshare(std::span<const std::span<std::byte>> ranges) noexcept;
  /// Whether other processes can access [data, data + bytes).
  [[nodiscard]] bool is_shared(const void* data, std::size_t bytes) const noexcept;
  /// The number of calls of `unshare` so far. A call is counted before its first page becomes private. So as long as
  /// the number does not change, shared memory remains shared, and other processes see the writes to it.
  [[nodiscard]] std::uint64_t unshares() const noexcept { return unshares_.load(std::memory_order_acquire); }

 private:
  /// Sizes of ranges, by offset. The ranges do not overlap.
  using Ranges = std::map<std::size_t, std::size_t>;

  // called around fork(), so that fork() does not copy the arena in the middle of a change
  void before_fork() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void after_fork_in_parent() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
  void after_fork_in_child() LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS;

  [[nodiscard]] std::size_t block_bytes(std::size_t bytes) const noexcept;
  [[nodiscard]] std::size_t offset_of(const void* data) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
  }
  /// One of the smallest free ranges with room for a block of `bytes`; the end of free_by_offset_ if none is found.
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
  std::atomic<bool> is_copy_{false};  ///< this process is a child of the process that made the arena

  mutable Mutex mutex_;
  Ranges free_by_offset_ LOCKSTEP_GUARDED_BY(mutex_);
  Ranges private_ LOCKSTEP_GUARDED_BY(mutex_);      // pages that `unshare` made private
  Ranges quarantined_ LOCKSTEP_GUARDED_BY(mutex_);  // freed ranges of private_
  std::set<std::pair<std::size_t, std::size_t>> free_by_size_ LOCKSTEP_GUARDED_BY(mutex_);  // (size, offset)
  std::size_t populated_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // all bytes below this offset are backed by memory
  std::size_t used_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::detail
