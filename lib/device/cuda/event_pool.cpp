// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/event_pool.hpp"

#include "device/cuda/streams.hpp"

#include <exception>

namespace lockstep::detail::cuda {
namespace {

void destroy(Event event, int device) noexcept {
  give_back(device, "cudaEventDestroy", [event](Api& api) { return api.event_destroy(event); });
}

}  // namespace

EventPool::~EventPool() {
  const MutexLock lock(mutex_);
  for (const auto& [device, events] : free_) {
    for (const Event event : events) destroy(event, device);
  }
}

Event EventPool::take(Api& api, int device) {
  {
    const MutexLock lock(mutex_);
    if (std::vector<Event>& events = free_[device]; !events.empty()) {
      const Event event = events.back();
      events.pop_back();
      return event;
    }
  }
  Event made = nullptr;
  check(api, api.event_create(made), "cudaEventCreate");
  return made;
}

void EventPool::give_back(Event event, int device) noexcept {
  try {
    const MutexLock lock(mutex_);
    free_[device].push_back(event);
  } catch (const std::exception&) {  // no memory for an entry
    destroy(event, device);
  }
}

}  // namespace lockstep::detail::cuda
