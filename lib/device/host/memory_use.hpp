// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Keeps track of memory that asynchronous operations read or write, so that it is not freed while they use it.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail {

/// An operation that uses memory for a while.
class MemoryUser {
 public:
  virtual ~MemoryUser() = default;
  /// Waits, for a bounded time, until the operation no longer uses the memory; returns whether that is so. Thread-safe.
  [[nodiscard]] virtual bool finish() noexcept = 0;
  /// The name for texts: "all_reduce sum of f32 [4]".
  [[nodiscard]] virtual std::string name() const = 0;
};

struct MemoryBlock {
  const void* data;
  std::size_t bytes;
};

using MemoryBlocks = std::shared_ptr<const std::vector<MemoryBlock>>;

/// Declares that `user` uses `blocks`, for the lifetime of this object. Thread-safe.
class MemoryUse {
 public:
  MemoryUse(std::shared_ptr<MemoryUser> user, MemoryBlocks blocks);
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;
  ~MemoryUse();

 private:
  friend bool has_no_user(const void* data, std::size_t bytes) noexcept;
  std::shared_ptr<MemoryUser> user_;
  MemoryBlocks blocks_;
};

/// Waits until no operation uses this memory, and logs a warning if it had to wait; returns whether the memory is
/// unused now. Costs one load if no operation uses any memory. Thread-safe.
[[nodiscard]] bool has_no_user(const void* data, std::size_t bytes) noexcept;

}  // namespace lockstep::detail
