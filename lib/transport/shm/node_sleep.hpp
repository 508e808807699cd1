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

/// Of one thread.
class NodeSleep {
 public:
  explicit NodeSleep(NodeGroup& group) noexcept : group_(group) {}

  /// From now on, the next call of `wake` by any rank wakes this thread. What it waits for may have happened already:
  /// look for it, then sleep. May be called again before each sleep, in case a rank has died while it woke the others.
  /// To be called under the engine's lock, as NodeGroup is. Does nothing if this rank has left the group, whose memory
  /// may be in other use.
  void announce() noexcept;
  [[nodiscard]] bool is_announced() const noexcept { return is_announced_; }
  /// Returns when the thread has been woken since it announced its sleep, or after `time`. Returns whether it was
  /// woken. A rank that does what this thread waits for at the same time as it announces its sleep may not see that
  /// yet, since a fence in each call would cost more than the sleep saves: so the time is bounded.
  [[nodiscard]] bool sleep(std::chrono::microseconds time) noexcept;

 private:
  NodeGroup& group_;
  std::uint32_t wakes_ = 0;
  bool is_announced_ = false;  // and this thread has not been woken since
};

}  // namespace lockstep::detail
