// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a detector of data races has to know of the threads of a run: which of their steps come before which others.

#pragma once

#include "virtual_time/scheduler.hpp"

namespace lockstep::virtual_time::detail {

/// The thread whose turn it is calls each function; threads are named by Thread::number.
struct Observer {
  void (*has_created)(int thread);           // before the first step of `thread`
  void (*ends)();                            // the last step of the calling thread
  void (*has_joined)(int thread);            // which has ended
  void (*has_acquired)(const void* object);  // a lock, a semaphore, or `once`
  void (*releases)(const void* object);
};

/// Null, except while a races::Detection exists.
extern constinit const Observer* observer;

inline void observe_acquired(const void* object) {
  if (observer != nullptr && active() != nullptr) observer->has_acquired(object);
}
inline void observe_release(const void* object) {
  if (observer != nullptr && active() != nullptr) observer->releases(object);
}

}  // namespace lockstep::virtual_time::detail
