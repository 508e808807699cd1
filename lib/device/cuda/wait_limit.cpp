// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/wait_limit.hpp"

#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "base/never_destroyed.hpp"

#include <set>

namespace lockstep::detail::cuda {
namespace {

struct Claims {
  Mutex mutex;
  std::multiset<std::chrono::milliseconds> limits LOCKSTEP_GUARDED_BY(mutex);
};

/// Never destroyed: communicators may be destroyed after static objects.
Claims& claims() {
  static NeverDestroyed<Claims> of_this_process;
  return *of_this_process;
}

}  // namespace

std::chrono::milliseconds wait_limit() {
  const MutexLock lock(claims().mutex);
  return claims().limits.empty() ? std::chrono::seconds(300) : *claims().limits.rbegin();
}

WaitClaim::WaitClaim(std::chrono::milliseconds limit) : limit_(limit), fork_depth_(fork_depth()) {
  const MutexLock lock(claims().mutex);
  claims().limits.insert(limit_);
}

WaitClaim::~WaitClaim() {
  if (fork_depth() != fork_depth_)
    return;  // if another thread held the mutex at the time of the fork, the mutex stays locked in the child
  const MutexLock lock(claims().mutex);
  claims().limits.erase(claims().limits.find(limit_));
}

}  // namespace lockstep::detail::cuda
