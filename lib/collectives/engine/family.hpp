// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's communicators that were made of one another. Each has an order of its own, so two ranks that use two of
// them in opposite order wait for one another; only here can it be seen where a missing rank is.

#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace lockstep::detail {

class Engine;

/// Thread-safe. Engines join and leave by themselves.
class Family {
 public:
  void join(Engine& engine);
  void leave(Engine& engine) noexcept;
  /// Makes all but `waiting` tell their peers that this rank is busy with `what`.
  void tell_peers(const Engine& waiting, const std::string& what);

 private:
  std::mutex mutex_;
  std::vector<Engine*> engines_;  // guarded by mutex_
};

}  // namespace lockstep::detail
