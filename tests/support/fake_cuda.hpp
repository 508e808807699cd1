// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// CUDA without GPUs: the whole table, on the host. What a GPU would do is done by threads, one per stream, late and in
// an order that chance says wherever nothing orders it.

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
  /// The machine that has the GPUs: those of one machine and index have the same uuid, in whatever process they are
  /// seen.
  std::uint64_t machine = 0;
  /// By index, instead of those made of `machine` and index; what is missing is made.
  std::vector<std::array<std::uint8_t, 16>> uuids = {};
  std::size_t memory_bytes = std::size_t{256} << 20;  ///< of each device
  HostAccess host_access = HostAccess::forbidden;
  int driver_version = 13000;  ///< 0: no driver
  int runtime_version = 13000;
  std::uint64_t seed = 1;  ///< of how late work is; 0: never
  /// The longest that anything in here waits; then it says so in the log.
  std::chrono::milliseconds patience = std::chrono::seconds(120);
};

/// Stricter than CUDA where CUDA leaves room:
/// - What a kernel touches is a block, as a whole, of the stream's device or page-locked, and it has arrived: streams
///   that use it are ordered behind the one that took it. Else the device fails with illegal_address, which every later
///   call for it returns.
/// - There is no default stream, no block of 0 bytes, no freeing of null. A handle of what is gone is an
/// invalid_handle.
/// - free_host waits for everything that is on any stream.
class FakeCuda final : public detail::cuda::Api {
 public:
  using Status = detail::cuda::Status;
  using Stream = detail::cuda::Stream;
  using Event = detail::cuda::Event;

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
  Status malloc_async(void*& block, std::size_t bytes, Stream stream) override;
  Status free_async(void* block, Stream stream) override;
  Status set_pool_threshold(int device, std::uint64_t bytes) override;
  Status malloc_host(void*& block, std::size_t bytes) override;
  Status free_host(void* block) override;
  Status memcpy_async(void* target, const void* source, std::size_t bytes, Stream stream) override;
  Status memcpy_peer_async(void* target, int target_device, const void* source, int source_device, std::size_t bytes,
                           Stream stream) override;
  Status memset_async(void* target, int byte, std::size_t bytes, Stream stream) override;
  Status stream_create(Stream& stream) override;
  Status stream_destroy(Stream stream) override;
  Status stream_query(Stream stream) override;
  Status stream_wait_event(Stream stream, Event event) override;
  Status event_create(Event& event) override;
  Status event_destroy(Event event) override;
  Status event_record(Event event, Stream stream) override;
  Status event_query(Event event) override;
  Status take_last_error() override;
  [[nodiscard]] std::string error_name(Status status) const override;
  [[nodiscard]] std::string error_string(Status status) const override;

  // For tests.

  /// Calls by name, of kernels, too ("reduce"): how many, and which fail.
  [[nodiscard]] FakeCalls<Status>& calls() { return calls_; }
  /// The next work on `device` fails, and with it the device.
  void fail_next_work(int device, Status status) { streams_.fail_next_work(device, status); }
  /// Whether all that is on `stream` was done in time.
  [[nodiscard]] bool wait(Stream stream);
  /// The same of all streams.
  [[nodiscard]] bool wait_for_all() { return streams_.wait_for_all(); }
  /// The bytes of registered memory, to be read when nothing writes them; null where a byte is not
  /// registered, or has not arrived yet.
  [[nodiscard]] std::byte* bytes_at(const void* address, std::size_t bytes = 1) const;
  [[nodiscard]] std::size_t used_bytes(int device) const { return memory_.used_bytes(device); }
  [[nodiscard]] std::size_t host_blocks() const { return memory_.host_blocks(); }
  /// What set_pool_threshold has said; 0 at first.
  [[nodiscard]] std::uint64_t pool_threshold(int device) const;

  // For the other fakes.

  /// A kernel of that name: `work` on `stream`, which is of the current device. Null: arguments that no kernel takes.
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
  };
  struct EventState {
    int device;
    FakeStreams::MarkPointer mark;  // of the last record
  };

  [[nodiscard]] ThreadState& this_thread() const;
  [[nodiscard]] Status availability() const;
  [[nodiscard]] std::optional<EventState> find_event(Event event) const;
  /// `body`, unless the call is to fail, or nothing can work.
  template <class Body>
  Status call(std::string_view name, const Body& body);
  /// `body(device)` where `stream` is one, of a device that works.
  template <class Body>
  Status on_stream(Stream stream, const Body& body);
  Status copy(void* target, const void* source, std::size_t bytes, Stream stream);

  const FakeCudaOptions options_;
  const void* const key_ = new_handle();  // to what a thread keeps of this one
  FakeCalls<Status> calls_;
  FakeMemory memory_;
  mutable std::mutex mutex_;
  std::map<Event, EventState> events_;     // guarded by mutex_
  std::vector<std::uint64_t> thresholds_;  // guarded by mutex_
  std::vector<std::array<std::uint8_t, 16>> uuids_;
  FakeStreams streams_;  // ends first: its work uses the rest
};

}  // namespace lockstep::test
