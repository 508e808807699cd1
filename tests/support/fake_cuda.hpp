// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// CUDA without GPUs: the whole table, on the host. The work of a GPU is done by threads, one per stream, late and in
// random order unless it is ordered by streams and events.

#pragma once

#include "bindings/cuda/cuda.hpp"
#include "support/fake_calls.hpp"
#include "support/fake_handles.hpp"
#include "support/fake_memory.hpp"
#include "support/fake_streams.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

struct FakeCudaOptions {
  int devices = 1;
  /// The machine that has the GPUs: GPUs of the same machine and index have the same uuid in all processes.
  std::uint64_t machine = 0;
  /// UUIDs by index, instead of those made from `machine` and index; missing ones are made.
  std::vector<std::array<std::uint8_t, 16>> uuids = {};
  std::size_t memory_bytes = std::size_t{256} << 20;  ///< memory of each device
  HostAccess host_access = HostAccess::forbidden;
  int driver_version = 13000;  ///< 0: no driver
  int runtime_version = 13000;
  std::vector<int> capabilities = {};  ///< 75 for 7.5, by index; those that are missing are 90
  bool has_memory_pools = true;
  std::uint64_t seed = 1;  ///< seed of the delays of work; 0: no delays
  /// Bound on every wait in the fake; a wait that reaches it is logged.
  std::chrono::milliseconds timeout = std::chrono::seconds(120);
};

/// Stricter than CUDA:
/// - A kernel touches only ranges inside one block of the stream's device or of pinned memory, whose allocation has
///   happened: the stream is ordered after the one that allocated it. Otherwise the device fails with illegal_address,
///   which every later call for it returns.
/// - There is no default stream, no block of 0 bytes, no freeing of null. A handle of a destroyed object is an
///   invalid_handle.
/// - free_host waits for all work on all streams.
/// - No call may use a stream that is being captured, except stream_is_capturing: it invalidates the capture.
class FakeCuda final : public detail::cuda::Api {
 public:
  using Status = detail::cuda::Status;
  using Stream = detail::cuda::Stream;
  using Event = detail::cuda::Event;
  using Pool = detail::cuda::Pool;
  using CaptureMode = detail::cuda::CaptureMode;

  explicit FakeCuda(FakeCudaOptions options = {});
  ~FakeCuda() override;

  // The table.
  Status driver_version(int& version) override;
  Status runtime_version(int& version) override;
  Status device_count(int& count) override;
  Status set_device(int device) override;
  Status get_device(int& device) override;
  Status device_properties(int device, detail::cuda::DeviceProperties& properties) override;
  Status pointer_attributes(const void* pointer, detail::cuda::PointerAttributes& attributes) override;
  Status pool_create(Pool& pool, int device) override;
  Status pool_destroy(Pool pool) override;
  Status pool_set_attribute(Pool pool, detail::cuda::PoolAttribute attribute, std::uint64_t value) override;
  Status malloc_from_pool_async(void*& block, std::size_t bytes, Pool pool, Stream stream) override;
  Status free_async(void* block, Stream stream) override;
  Status malloc_host(void*& block, std::size_t bytes) override;
  Status free_host(void* block) override;
  Status memcpy_async(void* target, const void* source, std::size_t bytes, Stream stream) override;
  Status memcpy_peer_async(void* target, int target_device, const void* source, int source_device, std::size_t bytes,
                           Stream stream) override;
  Status memset_async(void* target, int byte, std::size_t bytes, Stream stream) override;
  Status stream_priority_range(int& least, int& greatest) override;
  Status stream_create(Stream& stream, int priority) override;
  Status stream_destroy(Stream stream) override;
  Status stream_query(Stream stream) override;
  Status stream_is_capturing(Stream stream, bool& is_capturing) override;
  Status exchange_capture_mode(CaptureMode& mode) override;
  Status stream_wait_event(Stream stream, Event event) override;
  Status event_create(Event& event) override;
  Status event_destroy(Event event) override;
  Status event_record(Event event, Stream stream) override;
  Status event_query(Event event) override;
  void range_push(const char* name) override;
  void range_pop() override;
  Status take_last_error() override;
  [[nodiscard]] std::string error_name(Status status) const override;
  [[nodiscard]] std::string error_string(Status status) const override;

  // For tests.

  /// Counts calls by name, kernels included ("reduce"), and makes chosen ones fail.
  [[nodiscard]] FakeCalls<Status>& calls() { return calls_; }
  /// The next work on `device` fails, and with it the device.
  void fail_next_work(int device, Status status) { streams_.fail_next_work(device, status); }
  /// Waits for the work on `stream`. False if that times out.
  [[nodiscard]] bool wait(Stream stream);
  /// The same for all streams.
  [[nodiscard]] bool wait_for_all() { return streams_.wait_for_all(); }
  /// The bytes of registered memory, to be read while nothing writes them; null if a byte is not registered or not
  /// allocated yet.
  [[nodiscard]] std::byte* bytes_at(const void* address, std::size_t bytes = 1) const;
  [[nodiscard]] std::size_t used_bytes(int device) const { return memory_.used_bytes(device); }
  [[nodiscard]] std::size_t host_blocks() const { return memory_.host_blocks(); }
  /// The attributes of the pools of `device` that exist.
  struct PoolState {
    int device = 0;
    std::uint64_t release_threshold = 0;
    bool reuses_internal_dependencies = true;
  };
  [[nodiscard]] std::vector<PoolState> pools_of(int device) const;
  [[nodiscard]] int priority_of(Stream stream) const;
  /// Captures `stream` as cudaStreamBeginCapture does, in the global mode.
  void begin_capture(Stream stream);
  /// Ends the capture. Returns whether it is valid, that is, whether no call has invalidated it.
  [[nodiscard]] bool end_capture(Stream stream);

  /// cudaMallocAsync: from the device's default pool.
  Status malloc_async(void*& block, std::size_t bytes, Stream stream);

  // For the other fakes.

  /// A kernel of that name: `work` on `stream`, a stream of the current device. If null, the arguments were invalid.
  Status launch(std::string_view name, Stream stream, FakeStreams::Work work);
  [[nodiscard]] FakeMemory& memory() { return memory_; }
  [[nodiscard]] FakeStreams& streams() { return streams_; }
  [[nodiscard]] bool has_devices() const { return availability() == Status::success; }
  [[nodiscard]] int current_device() const;
  [[nodiscard]] const std::array<std::uint8_t, 16>& uuid(int device) const;

 private:
  struct ThreadState {
    int device = 0;
    Status last_error = Status::success;
    CaptureMode capture_mode = CaptureMode::global;
  };
  struct EventState {
    int device;
    FakeStreams::MarkPointer mark;  // the last record
  };

  [[nodiscard]] ThreadState& this_thread() const;
  [[nodiscard]] Status availability() const;
  [[nodiscard]] std::optional<EventState> find_event(Event event) const;
  /// `body`, unless the call is to fail or there is no driver.
  template <class Body>
  Status call(std::string_view name, const Body& body);
  /// As `call`, for a call that CUDA forbids in other capture modes than relaxed while a stream is captured.
  template <class Body>
  Status call_outside_capture(std::string_view name, const Body& body);
  /// `body(device)` if `stream` is a stream of a device that has not failed.
  template <class Body>
  Status on_stream(Stream stream, const Body& body);
  Status copy(void* target, const void* source, std::size_t bytes, Stream stream);
  Status allocate(void*& block, std::size_t bytes, Stream stream);

  const FakeCudaOptions options_;
  const void* const key_ = new_handle();  // of the state that a thread keeps for this object
  FakeCalls<Status> calls_;
  FakeMemory memory_;
  mutable std::mutex mutex_;
  std::map<Event, EventState> events_;  // guarded by mutex_
  std::map<Pool, PoolState> pools_;     // guarded by mutex_
  std::map<Stream, int> priorities_;    // guarded by mutex_
  std::map<Stream, bool> captures_;     // whether they are valid; guarded by mutex_
  std::vector<std::array<std::uint8_t, 16>> uuids_;
  FakeStreams streams_;  // destroyed first: its work uses the rest
};

}  // namespace lockstep::test
