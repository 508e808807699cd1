// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that somebody still reads or writes beside the thread that owns it, so that it is not freed under them.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Who uses memory for a while: an operation under way.
class MemoryUser {
 public:
  virtual ~MemoryUser() = default;
  /// Waits until the memory is no longer used, with a bound; whether that is so. Thread-safe.
  [[nodiscard]] virtual bool finish() noexcept = 0;
  /// "all_reduce sum of f32 [4]"
  [[nodiscard]] virtual std::string name() const = 0;
};

struct MemoryBlock {
  const void* data;
  std::size_t bytes;
};

using MemoryBlocks = std::shared_ptr<const std::vector<MemoryBlock>>;

/// Says that `user` uses `blocks`, from its construction to its end. Thread-safe.
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

/// Whether nobody uses this memory any more, after waiting for those who do; says so where it had to wait. Costs one
/// load while nobody uses any memory. Thread-safe.
[[nodiscard]] bool has_no_user(const void* data, std::size_t bytes) noexcept;

}  // namespace lockstep::detail
