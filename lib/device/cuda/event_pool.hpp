// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA events of this process that are not in use.

#pragma once

#include "base/mutex.hpp"
#include "bindings/cuda/cuda.hpp"

#include <map>
#include <vector>

namespace lockstep::detail::cuda {

/// Keeps events for later use: a collective needs several, and their creation and destruction would be a third of its
/// calls of CUDA. Thread-safe.
class EventPool {
 public:
  EventPool() = default;
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  /// Destroys the events.
  ~EventPool();

  /// An event of `device`, which must be the current device. It may have been recorded before. Throws
  /// Error(unavailable) if CUDA fails.
  [[nodiscard]] Event take(Api& api, int device);
  void give_back(Event event, int device) noexcept;

 private:
  Mutex mutex_;
  std::map<int, std::vector<Event>> free_ LOCKSTEP_GUARDED_BY(mutex_);  // by device
};

}  // namespace lockstep::detail::cuda
