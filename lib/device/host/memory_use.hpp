// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Keeps track of memory that asynchronous operations read or write, so that no such memory is freed too early.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail {

/// An asynchronous operation that uses memory.
class MemoryUser {
 public:
  virtual ~MemoryUser() = default;
  /// Waits, for a bounded time, until the operation no longer uses the memory. Returns false if the operation still
  /// uses the memory. Thread-safe.
  [[nodiscard]] virtual bool finish() noexcept = 0;
  /// The name of the operation in messages, such as "all_reduce sum of f32 [4]".
  [[nodiscard]] virtual std::string name() const = 0;
};

struct MemoryBlock {
  const void* data;
  std::size_t bytes;
};

struct UsedMemory {
  std::shared_ptr<MemoryUser> user;
  std::vector<MemoryBlock> blocks;
};

/// Declares that memory is in use as long as this object exists. Thread-safe. Construction and destruction take
/// constant time.
class MemoryUse {
 public:
  /// `memory` must outlive this object, and must not change meanwhile.
  explicit MemoryUse(const UsedMemory& memory) noexcept;
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;
  ~MemoryUse();

 private:
  friend bool has_no_user(const void* data, std::size_t bytes) noexcept;
  const UsedMemory& memory_;
  MemoryUse* previous_ = nullptr;  // neighbour in the list of all uses
  MemoryUse* next_ = nullptr;
};

/// Waits, for a bounded time, until no operation uses [data, data + bytes). Returns whether the memory is now unused.
/// If an operation was using the memory, logs a warning. If no operation uses any memory, costs one load. Thread-safe.
[[nodiscard]] bool has_no_user(const void* data, std::size_t bytes) noexcept;

}  // namespace lockstep::detail
