// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA runtime as a table of calls. The table has only the calls that lockstep needs, one entry per CUDA call, and
// no policy. A library that is built with CUDA contains the real table; tests supply their own. Code that uses the
// table needs no CUDA header.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::detail::cuda {

/// cudaError_t as a number.
enum class Status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  stub_library = 34,
  insufficient_driver = 35,
  no_device = 100,
  invalid_device = 101,
  invalid_handle = 400,
  not_ready = 600,
  illegal_address = 700,
  launch_failure = 719,
  capture_unsupported = 900,
  unknown = 999,
};

/// cudaStream_t, cudaEvent_t and cudaMemPool_t; null if there is none.
using Stream = void*;
using Event = void*;
using Pool = void*;

/// cudaMemPoolAttr, those that lockstep sets.
enum class PoolAttribute : std::uint8_t {
  release_threshold,            ///< bytes of freed memory that the pool keeps
  reuse_internal_dependencies,  ///< whether an allocation may make its stream wait for the stream that freed the block
};

/// cudaStreamCaptureMode: the calls that fail on a thread while a stream is being captured.
enum class CaptureMode : std::uint8_t { global, thread_local_, relaxed };

struct DeviceProperties {
  std::string name;                        ///< "NVIDIA H200"
  std::array<std::uint8_t, 16> uuid = {};  ///< identifies the device independently of CUDA_VISIBLE_DEVICES
  std::string pci_bus_id;                  ///< "0000:1b:00.0"
  int major = 0;                           ///< compute capability major.minor
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  bool has_memory_pools = false;  ///< cudaDevAttrMemoryPoolsSupported: whether `pool_create` works
};

enum class MemoryKind : std::uint8_t { unregistered, host, device, managed };

struct PointerAttributes {
  MemoryKind kind = MemoryKind::unregistered;
  int device = -1;
};

/// The calls. Each call does the same as the CUDA call of the same name, and returns the status of the CUDA call.
/// Asynchronous errors are returned by later calls. Thread-safe. A call without a `device` argument uses the calling
/// thread's current device in the same way as the CUDA call.
class Api {
 public:
  virtual ~Api() = default;

  /// `version` is 13000 for CUDA 13.0, and 0 if there is no driver.
  [[nodiscard]] virtual Status driver_version(int& version) = 0;
  [[nodiscard]] virtual Status runtime_version(int& version) = 0;
  [[nodiscard]] virtual Status device_count(int& count) = 0;
  [[nodiscard]] virtual Status set_device(int device) = 0;
  /// `device` is -1 if the calling thread has not used any device. CUDA reports device 0 in this case; a caller that
  /// later restored device 0 would make CUDA initialise it.
  [[nodiscard]] virtual Status get_device(int& device) = 0;
  [[nodiscard]] virtual Status device_properties(int device, DeviceProperties& properties) = 0;
  [[nodiscard]] virtual Status pointer_attributes(const void* pointer, PointerAttributes& attributes) = 0;

  /// Creates a pool of memory of `device`, which no other device can access.
  [[nodiscard]] virtual Status pool_create(Pool& pool, int device) = 0;
  [[nodiscard]] virtual Status pool_destroy(Pool pool) = 0;
  [[nodiscard]] virtual Status pool_set_attribute(Pool pool, PoolAttribute attribute, std::uint64_t value) = 0;
  [[nodiscard]] virtual Status malloc_from_pool_async(void*& block, std::size_t bytes, Pool pool, Stream stream) = 0;
  [[nodiscard]] virtual Status free_async(void* block, Stream stream) = 0;
  /// Allocates pinned host memory, which every device can access.
  [[nodiscard]] virtual Status malloc_host(void*& block, std::size_t bytes) = 0;
  [[nodiscard]] virtual Status free_host(void* block) = 0;

  /// Copies between host memory and a device, or inside of one of them; CUDA finds the direction from the addresses
  /// (cudaMemcpyDefault).
  [[nodiscard]] virtual Status memcpy_async(void* target, const void* source, std::size_t bytes, Stream stream) = 0;
  /// Copies between two devices, or inside of one device. If a device has no peer access to memory of another device's
  /// pool, CUDA copies this memory only by this call.
  [[nodiscard]] virtual Status memcpy_peer_async(void* target, int target_device, const void* source, int source_device,
                                                 std::size_t bytes, Stream stream) = 0;
  [[nodiscard]] virtual Status memset_async(void* target, int byte, std::size_t bytes, Stream stream) = 0;

  /// The priorities of streams of the current device; smaller numbers are served first.
  [[nodiscard]] virtual Status stream_priority_range(int& least, int& greatest) = 0;
  /// Creates a stream that does not wait for the default stream.
  [[nodiscard]] virtual Status stream_create(Stream& stream, int priority) = 0;
  [[nodiscard]] virtual Status stream_destroy(Stream stream) = 0;
  [[nodiscard]] virtual Status stream_query(Stream stream) = 0;  ///< not_ready while the stream has work
  /// Whether work on `stream` is being captured into a graph instead of being executed.
  [[nodiscard]] virtual Status stream_is_capturing(Stream stream, bool& is_capturing) = 0;
  /// Sets the calling thread's capture mode to `mode`, and `mode` to the former one.
  [[nodiscard]] virtual Status exchange_capture_mode(CaptureMode& mode) = 0;
  [[nodiscard]] virtual Status stream_wait_event(Stream stream, Event event) = 0;
  /// Creates an event without timing.
  [[nodiscard]] virtual Status event_create(Event& event) = 0;
  [[nodiscard]] virtual Status event_destroy(Event event) = 0;
  [[nodiscard]] virtual Status event_record(Event event, Stream stream) = 0;
  [[nodiscard]] virtual Status event_query(Event event) = 0;  ///< not_ready until the event has completed

  /// Begins and ends a range of this thread in the timeline of a profiler (NVTX). Without a profiler: costs a load
  /// each.
  virtual void range_push(const char* name) = 0;
  virtual void range_pop() = 0;

  /// Returns the last error of this thread. Clears the error, unless the error is sticky.
  virtual Status take_last_error() = 0;
  /// For example "cudaErrorMemoryAllocation"; `error_string` then returns "out of memory".
  [[nodiscard]] virtual std::string error_name(Status status) const = 0;
  [[nodiscard]] virtual std::string error_string(Status status) const = 0;
};

/// If `status` is not a success, throws Error(unavailable) with CUDA's error text and the name of the call.
void check(const Api& api, Status status, std::string_view call);

/// The real table, the same in each call; null in a build without CUDA. Thread-safe.
[[nodiscard]] std::shared_ptr<Api> real_api();

}  // namespace lockstep::detail::cuda
