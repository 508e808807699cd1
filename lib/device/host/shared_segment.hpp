// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A range of address space backed by a memory file that other processes of this node can map.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::detail {

/// The name by which another process finds a segment. Trivially copyable: it is sent as bytes.
struct SegmentName {
  std::uint64_t nonce = 0;  ///< 0 if there is no segment
  std::uint64_t bytes = 0;
  std::int64_t process = 0;
  std::int32_t file = -1;
};

/// A mapping; unmapped by the destructor. The first page of a segment belongs to this class: it contains the nonce, by
/// which a process that opens the file can tell that it is the right one.
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

 private:
  SharedSegment(std::byte* data, std::size_t size, int file, const SegmentName& name) noexcept
      : data_(data), size_(size), file_(file), name_(name) {}

  std::byte* data_;
  std::size_t size_;
  int file_;  ///< -1 for a segment of another process
  SegmentName name_;
};

}  // namespace lockstep::detail
