// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory for messages that are sent or received.

#pragma once

#include "base/processor.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::detail {

/// A block of bytes with unspecified contents, aligned to 64 bytes. A block of at least one huge page uses huge pages
/// if possible, since a rank that reads the block through the kernel pays per page. A smaller block would leave a huge
/// page mostly empty. Move-only.
class Buffer {
 public:
  Buffer() = default;
  /// Throws std::bad_alloc.
  explicit Buffer(std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return block_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return block_ ? size_ : 0; }
  [[nodiscard]] std::span<std::byte> first(std::size_t bytes) const noexcept { return {data(), bytes}; }
  /// Leaks the memory, because it may be accessed until the process ends. Leak checkers find the memory reachable.
  void leak() noexcept;

 private:
  struct Free {
    void operator()(std::byte* block) const noexcept;
  };
  std::unique_ptr<std::byte, Free> block_;
  std::size_t size_ = 0;
};

/// Buffers in which operations stage data. The buffers are kept between operations, so that a program in a steady state
/// allocates nothing. Their sizes are powers of two. Buffers that were not needed recently are freed: after
/// `least_history` calls of `take`, plus `history` calls for each kept buffer, the workspace frees the buffers that
/// none of these calls needed. `take` and `give_back` take constant time.
class Workspace {
 public:
  /// A buffer of at least `bytes` bytes, contents unspecified.
  [[nodiscard]] Buffer take(std::size_t bytes);
  void give_back(Buffer&& buffer);
  /// Total size of the kept buffers, without the buffers that are taken.
  [[nodiscard]] std::size_t spare_bytes() const noexcept;

  static constexpr std::size_t least_history = 1024;
  static constexpr std::size_t history = 64;

 private:
  struct SizeClass {
    std::vector<Buffer> spare;
    std::size_t unused = 0;  // smallest number of spare buffers since the last call of free_unused
  };

  void free_unused() noexcept;

  /// By size; the smallest size is one cache line.
  std::array<SizeClass, std::numeric_limits<std::size_t>::digits - std::countr_zero(line_bytes)> classes_;
  std::size_t takes_left_ = least_history;  // number of calls of `take` until the next call of free_unused
};

}  // namespace lockstep::detail
