// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's communicators that were made of one another. Each has an order of its own, so two ranks that use two of
// them in opposite order wait for one another; only the family can tell where a missing rank is.

#pragma once

#include "base/mutex.hpp"

#include <string>
#include <vector>

namespace lockstep::detail {

class Engine;

/// Thread-safe. Engines join and leave by themselves.
class Family {
 public:
  void join(Engine& engine);
  void leave(Engine& engine) noexcept;
  /// The other ranks of all engines but `waiting` get the status of this rank: it waits in `what`.
  void send_status(const Engine& waiting, const std::string& what);
  /// All engines but `driven` take the control messages that have arrived: a communicator that is not used would
  /// collect the messages of ranks that wait elsewhere. Never waits.
  void take_messages(const Engine& driven) noexcept;

 private:
  Mutex mutex_;
  std::vector<Engine*> engines_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail
