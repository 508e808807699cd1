// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The real table of CUDA calls, which uses the CUDA runtime that is linked into the library.

#include "bindings/cuda/cuda.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <cstring>

namespace lockstep::detail::cuda {
namespace {

constexpr Status to_status(cudaError_t error) { return static_cast<Status>(error); }
cudaStream_t native_stream(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(Event event) { return static_cast<cudaEvent_t>(event); }
cudaMemPool_t native_pool(Pool pool) { return static_cast<cudaMemPool_t>(pool); }

static_assert(to_status(cudaSuccess) == Status::success);
static_assert(to_status(cudaErrorInvalidValue) == Status::invalid_value);
static_assert(to_status(cudaErrorMemoryAllocation) == Status::out_of_memory);
static_assert(to_status(cudaErrorInitializationError) == Status::not_initialized);
static_assert(to_status(cudaErrorStubLibrary) == Status::stub_library);
static_assert(to_status(cudaErrorInsufficientDriver) == Status::insufficient_driver);
static_assert(to_status(cudaErrorNoDevice) == Status::no_device);
static_assert(to_status(cudaErrorInvalidDevice) == Status::invalid_device);
static_assert(to_status(cudaErrorInvalidResourceHandle) == Status::invalid_handle);
static_assert(to_status(cudaErrorNotReady) == Status::not_ready);
static_assert(to_status(cudaErrorIllegalAddress) == Status::illegal_address);
static_assert(to_status(cudaErrorLaunchFailure) == Status::launch_failure);
static_assert(to_status(cudaErrorStreamCaptureUnsupported) == Status::capture_unsupported);
static_assert(to_status(cudaErrorUnknown) == Status::unknown);

static_assert(static_cast<int>(CaptureMode::global) == cudaStreamCaptureModeGlobal);
static_assert(static_cast<int>(CaptureMode::thread_local_) == cudaStreamCaptureModeThreadLocal);
static_assert(static_cast<int>(CaptureMode::relaxed) == cudaStreamCaptureModeRelaxed);

MemoryKind memory_kind(cudaMemoryType type) {
  switch (type) {
    case cudaMemoryTypeHost: return MemoryKind::host;
    case cudaMemoryTypeDevice: return MemoryKind::device;
    case cudaMemoryTypeManaged: return MemoryKind::managed;
    default: return MemoryKind::unregistered;
  }
}

/// The function `name` of the driver, which the runtime has loaded; null if the driver has no such function.
template <class Function>
Function driver_function(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return driver != nullptr ? reinterpret_cast<Function>(dlsym(driver, name)) : nullptr;
}

/// Whether the calling thread has used a device. The CUDA runtime does not tell this, so this function asks the driver.
/// True if the driver does not tell.
bool has_context() {
  using GetCurrent = int (*)(void** context);
  static const auto get_current = driver_function<GetCurrent>("cuCtxGetCurrent");
  void* context = nullptr;
  return get_current == nullptr || get_current(&context) != 0 || context != nullptr;
}

/// Sets `uuid` to that of `device`. Runtimes before CUDA 13 report the UUID of the whole GPU for each of its MIG
/// instances; this function of the driver (since CUDA 11.4) reports that of the instance. Does nothing without it.
void read_uuid_of_instance(int device, std::array<std::uint8_t, 16>& uuid) {
  using GetDevice = int (*)(int* handle, int ordinal);
  using GetUuid = int (*)(void* uuid, int handle);
  static const auto get_device = driver_function<GetDevice>("cuDeviceGet");
  static const auto get_uuid = driver_function<GetUuid>("cuDeviceGetUuid_v2");
  int handle = 0;
  std::array<std::uint8_t, 16> found{};
  if (get_device == nullptr || get_uuid == nullptr || get_device(&handle, device) != 0) return;
  if (get_uuid(found.data(), handle) == 0) uuid = found;
}

class Runtime final : public Api {
 public:
  Status driver_version(int& version) override { return to_status(cudaDriverGetVersion(&version)); }
  Status runtime_version(int& version) override { return to_status(cudaRuntimeGetVersion(&version)); }
  Status device_count(int& count) override { return to_status(cudaGetDeviceCount(&count)); }
  Status set_device(int device) override { return to_status(cudaSetDevice(device)); }
  Status get_device(int& device) override {
    const auto error = cudaGetDevice(&device);
    if (error == cudaSuccess && !has_context()) device = -1;
    return to_status(error);
  }

  Status device_properties(int device, DeviceProperties& properties) override {
    cudaDeviceProp found;
    if (const auto error = cudaGetDeviceProperties(&found, device); error != cudaSuccess) return to_status(error);
    char bus_id[32] = {};
    if (const auto error = cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device); error != cudaSuccess) {
      return to_status(error);
    }
    int pools = 0;
    if (const auto error = cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device);
        error != cudaSuccess) {
      return to_status(error);
    }
    properties = {.name = found.name,
                  .pci_bus_id = bus_id,
                  .major = found.major,
                  .minor = found.minor,
                  .multiprocessors = found.multiProcessorCount,
                  .memory_bytes = found.totalGlobalMem,
                  .has_memory_pools = pools != 0};
    static_assert(sizeof found.uuid.bytes == sizeof properties.uuid);
    std::memcpy(properties.uuid.data(), found.uuid.bytes, sizeof found.uuid.bytes);
    read_uuid_of_instance(device, properties.uuid);
    return Status::success;
  }

  Status pointer_attributes(const void* pointer, PointerAttributes& attributes) override {
    cudaPointerAttributes found;
    if (const auto error = cudaPointerGetAttributes(&found, pointer); error != cudaSuccess) return to_status(error);
    attributes = {.kind = memory_kind(found.type), .device = found.device};
    return Status::success;
  }

  Status pool_create(Pool& pool, int device) override {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    cudaMemPool_t made = nullptr;
    const auto error = cudaMemPoolCreate(&made, &properties);
    pool = made;
    return to_status(error);
  }
  Status pool_destroy(Pool pool) override { return to_status(cudaMemPoolDestroy(native_pool(pool))); }
  Status pool_set_attribute(Pool pool, PoolAttribute attribute, std::uint64_t value) override {
    if (attribute == PoolAttribute::release_threshold) {
      return to_status(cudaMemPoolSetAttribute(native_pool(pool), cudaMemPoolAttrReleaseThreshold, &value));
    }
    int is_set = value != 0 ? 1 : 0;
    return to_status(cudaMemPoolSetAttribute(native_pool(pool), cudaMemPoolReuseAllowInternalDependencies, &is_set));
  }
  Status malloc_from_pool_async(void*& block, std::size_t bytes, Pool pool, Stream stream) override {
    return to_status(cudaMallocFromPoolAsync(&block, bytes, native_pool(pool), native_stream(stream)));
  }
  Status free_async(void* block, Stream stream) override {
    return to_status(cudaFreeAsync(block, native_stream(stream)));
  }
  Status malloc_host(void*& block, std::size_t bytes) override {
    return to_status(cudaHostAlloc(&block, bytes, cudaHostAllocPortable));
  }
  Status free_host(void* block) override { return to_status(cudaFreeHost(block)); }

  Status memcpy_async(void* target, const void* source, std::size_t bytes, Stream stream) override {
    return to_status(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, native_stream(stream)));
  }
  Status memcpy_peer_async(void* target, int target_device, const void* source, int source_device, std::size_t bytes,
                           Stream stream) override {
    return to_status(cudaMemcpyPeerAsync(target, target_device, source, source_device, bytes, native_stream(stream)));
  }
  Status memset_async(void* target, int byte, std::size_t bytes, Stream stream) override {
    return to_status(cudaMemsetAsync(target, byte, bytes, native_stream(stream)));
  }

  Status stream_priority_range(int& least, int& greatest) override {
    return to_status(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  }
  Status stream_create(Stream& stream, int priority) override {
    cudaStream_t made = nullptr;
    const auto error = cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority);
    stream = made;
    return to_status(error);
  }
  Status stream_destroy(Stream stream) override { return to_status(cudaStreamDestroy(native_stream(stream))); }
  Status stream_query(Stream stream) override { return to_status(cudaStreamQuery(native_stream(stream))); }
  Status stream_is_capturing(Stream stream, bool& is_capturing) override {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    const auto error = cudaStreamIsCapturing(native_stream(stream), &state);
    is_capturing = state != cudaStreamCaptureStatusNone;
    return to_status(error);
  }
  Status exchange_capture_mode(CaptureMode& mode) override {
    auto native = static_cast<cudaStreamCaptureMode>(mode);
    const auto error = cudaThreadExchangeStreamCaptureMode(&native);
    mode = static_cast<CaptureMode>(native);
    return to_status(error);
  }
  Status stream_wait_event(Stream stream, Event event) override {
    return to_status(cudaStreamWaitEvent(native_stream(stream), native_event(event), 0));
  }
  Status event_create(Event& event) override {
    cudaEvent_t made = nullptr;
    const auto error = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    event = made;
    return to_status(error);
  }
  Status event_destroy(Event event) override { return to_status(cudaEventDestroy(native_event(event))); }
  Status event_record(Event event, Stream stream) override {
    return to_status(cudaEventRecord(native_event(event), native_stream(stream)));
  }
  Status event_query(Event event) override { return to_status(cudaEventQuery(native_event(event))); }

  void range_push(const char* name) override { nvtxRangePushA(name); }
  void range_pop() override { nvtxRangePop(); }

  Status take_last_error() override { return to_status(cudaGetLastError()); }
  std::string error_name(Status code) const override { return cudaGetErrorName(static_cast<cudaError_t>(code)); }
  std::string error_string(Status code) const override { return cudaGetErrorString(static_cast<cudaError_t>(code)); }
};

}  // namespace

std::shared_ptr<Api> real_api() {
  static const auto api = std::make_shared<Runtime>();
  return api;
}

}  // namespace lockstep::detail::cuda
