// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/wait_limit.hpp"

#include "base/fork.hpp"

#include <mutex>
#include <set>

namespace lockstep::detail::cuda {
namespace {

struct Claims {
  std::mutex mutex;
  std::multiset<std::chrono::milliseconds> limits;  // guarded by mutex
};

/// Never destroyed: communicators may outlive everything.
Claims& claims() {
  static Claims* const of_this_process = new Claims;
  return *of_this_process;
}

}  // namespace

std::chrono::milliseconds wait_limit() {
  const std::scoped_lock lock(claims().mutex);
  return claims().limits.empty() ? std::chrono::seconds(300) : *claims().limits.rbegin();
}

WaitClaim::WaitClaim(std::chrono::milliseconds limit) : limit_(limit), fork_depth_(fork_depth()) {
  const std::scoped_lock lock(claims().mutex);
  claims().limits.insert(limit_);
}

WaitClaim::~WaitClaim() {
  if (fork_depth() != fork_depth_)
    return;  // at the fork another thread may have held the mutex, which is locked for ever then
  const std::scoped_lock lock(claims().mutex);
  claims().limits.erase(claims().limits.find(limit_));
}

}  // namespace lockstep::detail::cuda
