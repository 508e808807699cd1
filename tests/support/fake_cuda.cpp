// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_cuda.hpp"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>

namespace lockstep::test {

using detail::cuda::DeviceProperties;
using detail::cuda::MemoryKind;
using detail::cuda::PointerAttributes;

namespace {

std::vector<std::array<std::uint8_t, 16>> uuids_of(const FakeCudaOptions& options) {
  auto uuids = options.uuids;
  for (std::size_t device = uuids.size(); device < static_cast<std::size_t>(options.devices); ++device) {
    std::array<std::uint8_t, 16>& uuid = uuids.emplace_back();
    uuid = {'f', 'a', 'k', 'e'};
    std::memcpy(uuid.data() + 4, &options.machine, sizeof(options.machine));
    uuid.back() = static_cast<std::uint8_t>(device);
  }
  return uuids;
}

}  // namespace

FakeCuda::FakeCuda(FakeCudaOptions options)
    : options_(std::move(options)),
      memory_(options_.devices, options_.memory_bytes, options_.host_access),
      uuids_(uuids_of(options_)),
      streams_(options_.devices, options_.seed, options_.timeout) {}

FakeCuda::~FakeCuda() = default;

FakeCuda::ThreadState& FakeCuda::this_thread() const {
  thread_local std::unordered_map<const void*, ThreadState> states;
  return states[key_];
}

FakeCuda::Status FakeCuda::availability() const {
  if (options_.driver_version / 1000 < options_.runtime_version / 1000) return Status::insufficient_driver;
  return options_.devices == 0 ? Status::no_device : Status::success;
}

template <class Body>
FakeCuda::Status FakeCuda::call(std::string_view name, const Body& body) {
  const auto failure = calls_.enter(name);
  Status status = failure ? *failure : availability();
  if (status == Status::success) status = body();
  if (status != Status::success) this_thread().last_error = status;
  return status;
}

template <class Body>
FakeCuda::Status FakeCuda::call_outside_capture(std::string_view name, const Body& body) {
  return call(name, [&] {
    if (this_thread().capture_mode != CaptureMode::relaxed) {
      const std::scoped_lock lock(mutex_);
      for (auto& [stream, is_valid] : captures_) is_valid = false;
      if (!captures_.empty()) return Status::capture_unsupported;
    }
    return body();
  });
}

template <class Body>
FakeCuda::Status FakeCuda::on_stream(Stream stream, const Body& body) {
  const auto device = streams_.device_of(stream);
  if (!device) return Status::invalid_handle;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto capture = captures_.find(stream); capture != captures_.end()) {
      capture->second = false;
      return Status::capture_unsupported;
    }
  }
  const Status state = streams_.state(*device);
  return state == Status::success ? body(*device) : state;
}

FakeCuda::Status FakeCuda::driver_version(int& version) {
  if (const auto failure = calls_.enter("driver_version")) return *failure;
  version = options_.driver_version;
  return Status::success;
}

FakeCuda::Status FakeCuda::runtime_version(int& version) {
  if (const auto failure = calls_.enter("runtime_version")) return *failure;
  version = options_.runtime_version;
  return Status::success;
}

FakeCuda::Status FakeCuda::device_count(int& count) {
  return call("device_count", [&] {
    count = options_.devices;
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::set_device(int device) {
  return call("set_device", [&] {
    if (device < 0 || device >= options_.devices) return Status::invalid_device;
    this_thread().device = device;
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::get_device(int& device) {
  return call("get_device", [&] {
    device = current_device();
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::device_properties(int device, DeviceProperties& properties) {
  return call("device_properties", [&] {
    if (device < 0 || device >= options_.devices) return Status::invalid_device;
    const auto number = static_cast<std::size_t>(device);
    const int capability = number < options_.capabilities.size() ? options_.capabilities[number] : 90;
    properties = {.name = "Fake GPU",
                  .uuid = uuid(device),
                  .pci_bus_id = fmt::format("0000:{:02x}:00.0", device + 1),
                  .major = capability / 10,
                  .minor = capability % 10,
                  .multiprocessors = 4,
                  .memory_bytes = options_.memory_bytes,
                  .has_memory_pools = options_.has_memory_pools};
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::pointer_attributes(const void* pointer, PointerAttributes& attributes) {
  return call("pointer_attributes", [&] {
    const auto place = memory_.find(pointer, 1);
    attributes = place ? PointerAttributes{place->kind, place->device} : PointerAttributes{};
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::pool_create(Pool& pool, int device) {
  return call_outside_capture("pool_create", [&] {
    if (device < 0 || device >= options_.devices) return Status::invalid_device;
    pool = new_handle();
    const std::scoped_lock lock(mutex_);
    pools_.emplace(pool, PoolState{device});
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::pool_destroy(Pool pool) {
  return call("pool_destroy", [&] {
    const std::scoped_lock lock(mutex_);
    return pools_.erase(pool) == 1 ? Status::success : Status::invalid_value;
  });
}

FakeCuda::Status FakeCuda::pool_set_attribute(Pool pool, detail::cuda::PoolAttribute attribute, std::uint64_t value) {
  return call("pool_set_attribute", [&] {
    const std::scoped_lock lock(mutex_);
    const auto found = pools_.find(pool);
    if (found == pools_.end()) return Status::invalid_value;
    switch (attribute) {
      case detail::cuda::PoolAttribute::release_threshold: found->second.release_threshold = value; break;
      case detail::cuda::PoolAttribute::reuse_internal_dependencies:
        found->second.reuses_internal_dependencies = value != 0;
        break;
    }
    return Status::success;
  });
}

std::vector<FakeCuda::PoolState> FakeCuda::pools_of(int device) const {
  const std::scoped_lock lock(mutex_);
  std::vector<PoolState> result;
  for (const auto& [pool, state] : pools_) {
    if (state.device == device) result.push_back(state);
  }
  return result;
}

FakeCuda::Status FakeCuda::malloc_from_pool_async(void*& block, std::size_t bytes, Pool pool, Stream stream) {
  return call("malloc_from_pool_async", [&] {
    {
      const std::scoped_lock lock(mutex_);
      const auto found = pools_.find(pool);
      if (found == pools_.end() || found->second.device != streams_.device_of(stream)) return Status::invalid_value;
    }
    return allocate(block, bytes, stream);
  });
}

FakeCuda::Status FakeCuda::malloc_async(void*& block, std::size_t bytes, Stream stream) {
  return call("malloc_async", [&] { return allocate(block, bytes, stream); });
}

FakeCuda::Status FakeCuda::allocate(void*& block, std::size_t bytes, Stream stream) {
  return on_stream(stream, [&](int device) {
    if (bytes == 0) return Status::invalid_value;
    void* const taken = memory_.allocate(device, bytes);
    if (taken == nullptr) return Status::out_of_memory;
    streams_.submit_service(stream, [this, taken] { memory_.arrive(taken); });
    block = taken;
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::free_async(void* block, Stream stream) {
  return call("free_async", [&] {
    return on_stream(stream, [&](int) {
      if (!memory_.begin_free(block)) return Status::invalid_value;
      streams_.submit_service(stream, [this, block] { memory_.end_free(block); });
      return Status::success;
    });
  });
}

FakeCuda::Status FakeCuda::malloc_host(void*& block, std::size_t bytes) {
  return call_outside_capture("malloc_host", [&] {
    const Status state = streams_.state(current_device());
    if (state != Status::success) return state;
    void* const taken = memory_.allocate_host(bytes);
    if (taken == nullptr) return Status::out_of_memory;
    block = taken;
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::free_host(void* block) {
  return call_outside_capture("free_host", [&] {
    if (!memory_.is_host_block(block)) return Status::invalid_value;
    static_cast<void>(streams_.wait_for_all());
    memory_.free_host(block);
    return streams_.state(current_device());
  });
}

FakeCuda::Status FakeCuda::memcpy_async(void* target, const void* source, std::size_t bytes, Stream stream) {
  return call("memcpy_async", [&] {
    return on_stream(stream, [&](int device) {
      if (bytes != 0) {
        const auto to = memory_.find(target, bytes);
        const auto from = memory_.find(source, bytes);
        if (to && from && to->device >= 0 && from->device >= 0 && to->device != from->device)
          return Status::invalid_value;  // there is no peer access between them
        if (const Status status = copy(target, source, bytes, stream); status != Status::success) return status;
      }
      return streams_.state(device);
    });
  });
}

FakeCuda::Status FakeCuda::memcpy_peer_async(void* target, int target_device, const void* source, int source_device,
                                             std::size_t bytes, Stream stream) {
  return call("memcpy_peer_async", [&] {
    return on_stream(stream, [&](int device) {
      if (bytes == 0) return streams_.state(device);
      const auto to = memory_.find(target, bytes);
      const auto from = memory_.find(source, bytes);
      if (!to || to->device != target_device || !from || from->device != source_device) return Status::invalid_value;
      const Status status = copy(target, source, bytes, stream);
      return status == Status::success ? streams_.state(device) : status;
    });
  });
}

// Pageable memory is staged: a copy from it reads it now, and a copy to it is complete on return.
FakeCuda::Status FakeCuda::copy(void* target, const void* source, std::size_t bytes, Stream stream) {
  const auto to = memory_.find(target, bytes);
  const auto from = memory_.find(source, bytes);
  if (!to || !from) return Status::invalid_value;
  const bool staged_source = from->kind == MemoryKind::unregistered;
  const bool staged_target = to->kind == MemoryKind::unregistered;
  // not on this thread's stack: after a wait that has timed out the copy may still happen
  const auto stage = std::make_shared<std::vector<std::byte>>(staged_source || staged_target ? bytes : 0);
  if (staged_source) std::memcpy(stage->data(), source, bytes);
  streams_.submit(stream, [=, this] {
    std::byte* const write = staged_target ? stage->data() : memory_.reach(target, bytes, std::nullopt);
    const std::byte* const read = staged_source ? stage->data() : memory_.reach(source, bytes, std::nullopt);
    if (write == nullptr || read == nullptr) return Status::illegal_address;
    std::memmove(write, read, bytes);
    return Status::success;
  });
  if (!staged_target) return Status::success;
  if (!wait(stream)) return Status::unknown;
  std::memcpy(target, stage->data(), bytes);
  return Status::success;
}

FakeCuda::Status FakeCuda::memset_async(void* target, int byte, std::size_t bytes, Stream stream) {
  return call("memset_async", [&] {
    return on_stream(stream, [&](int) {
      if (bytes == 0) return Status::success;
      const auto place = memory_.find(target, bytes);
      if (!place || place->kind == MemoryKind::unregistered) return Status::invalid_value;
      streams_.submit(stream, [=, this] {
        std::byte* const write = memory_.reach(target, bytes, std::nullopt);
        if (write == nullptr) return Status::illegal_address;
        std::memset(write, byte, bytes);
        return Status::success;
      });
      return Status::success;
    });
  });
}

FakeCuda::Status FakeCuda::stream_priority_range(int& least, int& greatest) {
  return call("stream_priority_range", [&] {
    least = 0;
    greatest = -5;
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::stream_create(Stream& stream, int priority) {
  return call("stream_create", [&] {
    const Status state = streams_.state(current_device());
    if (state != Status::success) return state;
    stream = streams_.create(current_device());
    const std::scoped_lock lock(mutex_);
    priorities_[stream] = priority;
    return state;
  });
}

int FakeCuda::priority_of(Stream stream) const {
  const std::scoped_lock lock(mutex_);
  return priorities_.at(stream);
}

FakeCuda::Status FakeCuda::stream_is_capturing(Stream stream, bool& is_capturing) {
  return call("stream_is_capturing", [&] {
    if (!streams_.device_of(stream)) return Status::invalid_handle;
    const std::scoped_lock lock(mutex_);
    is_capturing = captures_.contains(stream);
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::exchange_capture_mode(CaptureMode& mode) {
  return call("exchange_capture_mode", [&] {
    std::swap(this_thread().capture_mode, mode);
    return Status::success;
  });
}

void FakeCuda::begin_capture(Stream stream) {
  const std::scoped_lock lock(mutex_);
  captures_[stream] = true;
}

bool FakeCuda::end_capture(Stream stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = captures_.find(stream);
  const bool is_valid = found != captures_.end() && found->second;
  captures_.erase(stream);
  return is_valid;
}

FakeCuda::Status FakeCuda::stream_destroy(Stream stream) {
  return call("stream_destroy", [&] { return streams_.destroy(stream) ? Status::success : Status::invalid_handle; });
}

FakeCuda::Status FakeCuda::stream_query(Stream stream) {
  return call_outside_capture("stream_query", [&] {
    return on_stream(stream, [&](int device) {
      // the stream may be idle because of a failure
      return streams_.is_idle(stream) ? streams_.state(device) : Status::not_ready;
    });
  });
}

FakeCuda::Status FakeCuda::stream_wait_event(Stream stream, Event event) {
  return call("stream_wait_event", [&] {
    return on_stream(stream, [&](int) {
      const auto found = find_event(event);
      if (!found) return Status::invalid_handle;
      if (found->mark) streams_.hold_back(stream, found->mark);
      return Status::success;
    });
  });
}

FakeCuda::Status FakeCuda::event_create(Event& event) {
  return call("event_create", [&] {
    const Status state = streams_.state(current_device());
    if (state != Status::success) return state;
    event = new_handle();
    const std::scoped_lock lock(mutex_);
    events_.emplace(event, EventState{current_device(), nullptr});
    return Status::success;
  });
}

FakeCuda::Status FakeCuda::event_destroy(Event event) {
  return call("event_destroy", [&] {
    const std::scoped_lock lock(mutex_);
    return events_.erase(event) == 1 ? Status::success : Status::invalid_handle;
  });
}

FakeCuda::Status FakeCuda::event_record(Event event, Stream stream) {
  return call("event_record", [&] {
    return on_stream(stream, [&](int device) {
      const std::scoped_lock lock(mutex_);
      const auto found = events_.find(event);
      if (found == events_.end() || found->second.device != device) return Status::invalid_handle;
      found->second.mark = streams_.mark(stream);
      return Status::success;
    });
  });
}

FakeCuda::Status FakeCuda::event_query(Event event) {
  return call_outside_capture("event_query", [&] {
    const auto found = find_event(event);
    if (!found) return Status::invalid_handle;
    if (found->mark && !streams_.is_passed(*found->mark)) {
      const Status state = streams_.state(found->device);
      return state == Status::success ? Status::not_ready : state;
    }
    return streams_.state(found->device);
  });
}

std::optional<FakeCuda::EventState> FakeCuda::find_event(Event event) const {
  const std::scoped_lock lock(mutex_);
  const auto found = events_.find(event);
  return found == events_.end() ? std::nullopt : std::optional(found->second);
}

void FakeCuda::range_push(const char* name) { static_cast<void>(calls_.enter("range_push " + std::string(name))); }

void FakeCuda::range_pop() { static_cast<void>(calls_.enter("range_pop")); }

FakeCuda::Status FakeCuda::take_last_error() {
  // without a driver that is the last error after any call
  if (options_.driver_version == 0) return Status::insufficient_driver;
  const Status last = std::exchange(this_thread().last_error, Status::success);
  if (options_.devices == 0) return last;
  const Status state = streams_.state(current_device());
  return state == Status::success ? last : state;
}

bool FakeCuda::wait(Stream stream) {
  if (!streams_.device_of(stream)) return false;
  return streams_.wait(*streams_.mark(stream));
}

std::byte* FakeCuda::bytes_at(const void* address, std::size_t bytes) const {
  return memory_.reach(address, bytes, std::nullopt);
}

FakeCuda::Status FakeCuda::launch(std::string_view name, Stream stream, FakeStreams::Work work) {
  return call(name, [&] {
    return on_stream(stream, [&](int device) {
      if (device != current_device()) return Status::invalid_handle;
      if (!work) return Status::invalid_value;
      streams_.submit(stream, std::move(work));
      return Status::success;
    });
  });
}

int FakeCuda::current_device() const { return this_thread().device; }

const std::array<std::uint8_t, 16>& FakeCuda::uuid(int device) const {
  return uuids_[static_cast<std::size_t>(device)];
}

}  // namespace lockstep::test
