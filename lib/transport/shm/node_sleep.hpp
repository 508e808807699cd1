// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The sleep of a thread that waits for other ranks of its node. It uses no processor, and ends some microseconds after
// one of them has called NodeGroup::wake.

#pragma once

#include "transport/shm/node_group.hpp"

#include <chrono>
#include <cstdint>

namespace lockstep::detail {

/// Of one thread. Except `sleep`, to be called under the engine's lock, as NodeGroup is.
class NodeSleep {
 public:
  explicit NodeSleep(NodeGroup& group) noexcept : group_(group) {}

  /// From now on the other ranks wake this thread. What it waits for may have happened already: look for it again, then
  /// sleep. A rank may not see yet that this thread sleeps when it does what this thread waits for, since a fence in
  /// each call would cost more than the sleep saves: so sleep for a bounded time.
  void announce() noexcept;
  /// Returns when the thread has been woken since `announce`, or after `time`. Returns whether it was woken.
  [[nodiscard]] bool sleep(std::chrono::microseconds time) const noexcept;
  /// Ends what `announce` began. Does nothing if this rank has left the group, whose memory may be in other use.
  void withdraw() noexcept;

 private:
  NodeGroup& group_;
  std::uint32_t wakes_ = 0;
};

}  // namespace lockstep::detail
