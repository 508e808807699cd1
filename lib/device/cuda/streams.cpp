// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/streams.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/processor.hpp"
#include "device/cuda/open_devices.hpp"
#include "device/cuda/wait_limit.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

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

}  // namespace

CurrentDevice::CurrentDevice(int device) {
  int before = -1;
  check(api(), api().get_device(before), "cudaGetDevice");
  if (before == device) return;
  check(api(), api().set_device(device), "cudaSetDevice");
  before_ = before;
}

CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) static_cast<void>(api().set_device(before_));
}

Stream stream_of(Device device) { return Backend::of_this_process().open_devices().stream(device); }

void put_in_order(Stream earlier, int earlier_device, Stream later) {
  OwnedEvent event(earlier_device);
  event.record(earlier);
  event.hold_back(later);
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
  while (!is_done()) {
    const auto waited = Clock::now() - start;
    if (waited > limit) {
      throw_error(Code::deadline_exceeded, "{}: timed out after {} s waiting for {}", who,
                  std::chrono::duration<double>(limit).count(), to_string(device));
    }
    if (waited < spinning) {
      cpu_relax();
    } else if (waited < yielding) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(spinning);
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

OwnedEvent::OwnedEvent(int device) : device_(device) {
  const CurrentDevice current(device_);
  check(api(), api().event_create(handle_), "cudaEventCreate");
}

OwnedEvent::~OwnedEvent() {
  give_back(device_, "cudaEventDestroy", [this](Api& api) { return api.event_destroy(handle_); });
}

void OwnedEvent::record(Stream stream) {
  const CurrentDevice current(device_);
  check(api(), api().event_record(handle_, stream), "cudaEventRecord");
}

bool OwnedEvent::is_done() const {
  const CurrentDevice current(device_);
  return has_come(api().event_query(handle_), "cudaEventQuery");
}

void OwnedEvent::hold_back(Stream stream) const {
  int current = -1;
  check(api(), api().get_device(current), "cudaGetDevice");
  const CurrentDevice some(current < 0 ? device_ : current);
  check(api(), api().stream_wait_event(stream, handle_), "cudaStreamWaitEvent");
}

OwnedStream::OwnedStream(int device) : device_(device) {
  const CurrentDevice current(device_);
  check(api(), api().stream_create(handle_), "cudaStreamCreate");
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
