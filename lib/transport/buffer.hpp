// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory for messages that are sent or received.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A block of bytes, contents unspecified, aligned to 64 bytes. Blocks of a huge page or more use huge pages if
/// possible, since a rank that reads them through the kernel pays per page; smaller ones would leave them mostly empty.
/// Move-only.
class Buffer {
 public:
  Buffer() = default;
  /// Throws std::bad_alloc.
  explicit Buffer(std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return block_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return block_ ? size_ : 0; }
  [[nodiscard]] std::span<std::byte> first(std::size_t bytes) const noexcept { return {data(), bytes}; }
  /// Leaks the memory, which may be accessed until the process ends. Leak checkers find it reachable.
  void leak() noexcept;

 private:
  struct Free {
    void operator()(std::byte* block) const noexcept;
  };
  std::unique_ptr<std::byte, Free> block_;
  std::size_t size_ = 0;
};

/// Buffers that operations stage data in, kept between operations so that a steady program allocates nothing.
class Workspace {
 public:
  /// A buffer of at least `bytes` bytes, contents unspecified.
  [[nodiscard]] Buffer take(std::size_t bytes);
  void give_back(Buffer&& buffer);

 private:
  std::vector<Buffer> spare_;
};

}  // namespace lockstep::detail
