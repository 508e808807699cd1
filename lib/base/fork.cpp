// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace lockstep::detail {
namespace {

std::atomic<std::uint32_t> depth{0};
void count_fork() { depth.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint32_t fork_depth() noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(registered);
  return depth.load(std::memory_order_relaxed);
}

}  // namespace lockstep::detail
