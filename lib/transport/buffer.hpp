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

/// Buffers that operations stage data in, kept between operations so that a steady program allocates nothing. Their
/// sizes are powers of two. Of each size it keeps as many as were taken at one time in the recent past: after
/// `least_history` takes, and `history` more for each buffer that is kept, those that were never taken are freed.
/// `take` and `give_back` take constant time.
class Workspace {
 public:
  /// A buffer of at least `bytes` bytes, contents unspecified.
  [[nodiscard]] Buffer take(std::size_t bytes);
  void give_back(Buffer&& buffer);
  /// Bytes of the buffers that are kept, those that are taken excepted.
  [[nodiscard]] std::size_t spare_bytes() const noexcept;

  static constexpr std::size_t least_history = 1024;
  static constexpr std::size_t history = 64;

 private:
  struct SizeClass {
    std::vector<Buffer> spare;
    std::size_t unused = 0;  // the fewest of them since the last call of free_unused
  };

  void free_unused() noexcept;

  /// By size, from a cache line on.
  std::array<SizeClass, std::numeric_limits<std::size_t>::digits - std::countr_zero(line_bytes)> classes_;
  std::size_t takes_left_ = least_history;  // until the next call of free_unused
};

}  // namespace lockstep::detail
