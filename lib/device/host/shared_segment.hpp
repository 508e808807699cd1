// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// A stretch of address space backed by a memory file that other processes of this node can map.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::detail {

/// How another process finds a segment. Trivially copyable: it travels as bytes.
struct SegmentName {
  std::uint64_t nonce = 0;  ///< 0: no segment
  std::uint64_t bytes = 0;
  std::int64_t process = 0;
  std::int32_t file = -1;
};

/// A mapping, undone at the end. The first page of a segment belongs to this class: it holds the nonce, by which a
/// process that opens the file knows that it is the right one.
class SharedSegment {
 public:
  static constexpr std::size_t header_bytes = 4096;

  /// Reserves `bytes` (or less, where address space is limited) of a new memory file. Memory is used as pages are
  /// touched. Null when this system allows none; `why` then says why, and else names the kind of file.
  [[nodiscard]] static std::shared_ptr<SharedSegment> create(std::size_t bytes, std::string& why);
  /// Maps another process's segment, or the caller's own once more. Null when that is not allowed here, or when `name`
  /// does not lead to the segment meant; `why` then says why.
  [[nodiscard]] static std::shared_ptr<SharedSegment> open(const SegmentName& name, std::string& why);

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const SegmentName& name() const noexcept { return name_; }
  /// Backs [offset, offset + bytes) with zeroed memory and maps it; whether the system had it. Whole pages.
  [[nodiscard]] bool populate(std::size_t offset, std::size_t bytes) noexcept;

 private:
  SharedSegment(std::byte* data, std::size_t size, int file, const SegmentName& name) noexcept
      : data_(data), size_(size), file_(file), name_(name) {}

  std::byte* data_;
  std::size_t size_;
  int file_;  ///< -1 when it is another process's
  SegmentName name_;
};

}  // namespace lockstep::detail
