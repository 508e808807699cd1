// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/streams.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/pause.hpp"
#include "device/cuda/open_devices.hpp"
#include "device/cuda/wait_limit.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

namespace lockstep::detail::cuda {
namespace {

constexpr auto runtime_unloading = static_cast<Status>(4);  // CUDA returns it while static objects are destroyed

Api& api() { return Backend::of_this_process().api(); }

/// Whether a query's status means that the work is complete.
bool has_come(Status status, std::string_view call) {
  if (status == Status::not_ready) {
    api().take_last_error();  // CUDA stores not_ready as its last error, like a failure
    return false;
  }
  check(api(), status, call);
  return true;
}

void destroy(Event event, int device) noexcept {
  give_back(device, "cudaEventDestroy", [event](Api& api) { return api.event_destroy(event); });
}

}  // namespace

CurrentDevice::CurrentDevice(int device) {
  int before = -1;
  check(api(), api().get_device(before), "cudaGetDevice");
  if (before != device) {
    check(api(), api().set_device(device), "cudaSetDevice");
    before_ = before;
  }
  // after set_device: this call, too, would initialize the current device
  if (api().exchange_capture_mode(mode_) != Status::success) mode_ = CaptureMode::global;
}

CurrentDevice::~CurrentDevice() {
  static_cast<void>(api().exchange_capture_mode(mode_));
  if (before_ >= 0) static_cast<void>(api().set_device(before_));
}

ProfilerRange::ProfilerRange(std::string_view name) { api().range_push(std::string(name).c_str()); }

ProfilerRange::~ProfilerRange() { api().range_pop(); }

Stream stream_of(Device device) { return Backend::of_this_process().open_devices().stream(device); }

void put_in_order(Stream earlier, int earlier_device, Stream later) {
  OwnedEvent event(earlier_device);
  event.record(earlier);
  event.hold_back(later);
}

void require_no_capture(Stream stream, int device, std::string_view who) {
  const CurrentDevice current(device);
  bool is_capturing = false;
  check(api(), api().stream_is_capturing(stream, is_capturing), "cudaStreamIsCapturing");
  if (!is_capturing) return;
  throw_error(
      Code::failed_precondition,
      "{}: a stream of gpu:{} is being captured into a CUDA graph; calls of lockstep cannot be part of a graph: "
      "end the capture first",
      who, device);
}

bool is_idle(Stream stream, int device) {
  const CurrentDevice current(device);
  return has_come(api().stream_query(stream), "cudaStreamQuery");
}

void wait_until(const std::function<bool()>& is_done, std::string_view who, Device device) {
  using Clock = std::chrono::steady_clock;
  constexpr auto spinning = std::chrono::microseconds(50);
  constexpr auto yielding = std::chrono::milliseconds(1);
  const auto limit = wait_limit();
  const auto start = Clock::now();
  for (std::uint32_t number = 1; !is_done(); ++number) {
    const auto waited = Clock::now() - start;
    if (waited > limit) {
      throw_error(Code::deadline_exceeded, "{}: timed out after {} s waiting for {}", who,
                  std::chrono::duration<double>(limit).count(), to_string(device));
    }
    if (waited < spinning) {
      cpu_relax(number);
    } else if (waited < yielding) {
      yield_core(number);
    } else {
      sleep_briefly(spinning, number);
    }
  }
}

void give_back(int device, std::string_view call, const std::function<Status(Api&)>& action) noexcept {
  static std::atomic<bool> has_failed{false};
  try {
    const Backend& backend = Backend::of_this_process();
    if (!backend.is_of_this_process()) return;
    const CurrentDevice current(device);
    const Status status = action(backend.api());
    if (status != runtime_unloading) check(backend.api(), status, call);
  } catch (const std::exception& error) {
    if (!has_failed.exchange(true)) log_warning("gpu:{}: a resource could not be freed: {}", device, error.what());
  }
}

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

OwnedEvent::OwnedEvent(int device) : device_(device) {
  const CurrentDevice current(device_);
  handle_ = Backend::of_this_process().events().take(api(), device_);
}

OwnedEvent::~OwnedEvent() {
  const Backend& backend = Backend::of_this_process();
  if (backend.is_of_this_process()) backend.events().give_back(handle_, device_);
}

void OwnedEvent::record(Stream stream) {
  const CurrentDevice current(device_);
  check(api(), api().event_record(handle_, stream), "cudaEventRecord");
  is_recorded_ = true;
}

bool OwnedEvent::is_done() const {
  if (!is_recorded_) return true;
  const CurrentDevice current(device_);
  return has_come(api().event_query(handle_), "cudaEventQuery");
}

void OwnedEvent::hold_back(Stream stream) const {
  if (!is_recorded_) return;
  int current = -1;
  check(api(), api().get_device(current), "cudaGetDevice");
  const CurrentDevice some(current < 0 ? device_ : current);
  check(api(), api().stream_wait_event(stream, handle_), "cudaStreamWaitEvent");
}

OwnedStream::OwnedStream(int device, Priority priority) : device_(device) {
  const CurrentDevice current(device_);
  int least = 0;
  int greatest = 0;
  check(api(), api().stream_priority_range(least, greatest), "cudaDeviceGetStreamPriorityRange");
  const int number = priority == Priority::greatest ? greatest : least;
  check(api(), api().stream_create(handle_, number), "cudaStreamCreateWithPriority");
}

OwnedStream::~OwnedStream() {
  try {
    if (!Backend::of_this_process().is_of_this_process()) return;
    wait_until([this] { return is_idle(handle_, device_); }, "destroying a stream", {DeviceKind::gpu, device_});
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
  }
  // if work on the stream is still pending, CUDA destroys the stream after this work
  give_back(device_, "cudaStreamDestroy", [this](Api& api) { return api.stream_destroy(handle_); });
}

}  // namespace lockstep::detail::cuda
