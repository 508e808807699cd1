// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Detects whether this process created an object, or is a child process that inherited a copy of the object by fork().

#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::detail {

/// The number of fork() calls between this process and the first process that called this function. Costs one load.
/// Thread-safe.
[[nodiscard]] std::uint32_t fork_depth() noexcept;

/// A switch of the process that sets it. Its child processes see it as not set: at the time of a fork another thread
/// may have held a mutex that the switched work needs, which then stays locked for ever in the child. Thread-safe.
class ProcessFlag {
 public:
  void set(bool value) noexcept {
    depth_.store(fork_depth(), std::memory_order_relaxed);
    value_.store(value, std::memory_order_release);
  }
  /// Costs one load if the flag is not set.
  [[nodiscard]] bool is_set() const noexcept {
    return value_.load(std::memory_order_acquire) && depth_.load(std::memory_order_relaxed) == fork_depth();
  }

 private:
  std::atomic<bool> value_{false};
  std::atomic<std::uint32_t> depth_{0};  // fork_depth() of the process that has set the flag
};

}  // namespace lockstep::detail
