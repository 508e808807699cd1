// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's communicators that were made of one another. Each has an order of its own, so two ranks that use two of
// them in opposite order wait for one another; only the family can tell where a missing rank is.

#pragma once

#include "base/mutex.hpp"

#include <vector>

namespace lockstep::detail {

class Engine;
struct WaitElsewhere;

/// Thread-safe. Engines join and leave by themselves.
class Family {
 public:
  void join(Engine& engine);
  void leave(Engine& engine) noexcept;
  /// All engines but `waiting` take the control messages that have arrived, and tell the ranks that wait in them where
  /// this rank is. Never waits.
  void answer_for(const Engine& waiting, const WaitElsewhere& wait) noexcept;

 private:
  Mutex mutex_;
  std::vector<Engine*> engines_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail
