// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The real table of CUDA calls, which uses the CUDA runtime that is linked into the library.

#include "bindings/cuda/cuda.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstring>

namespace lockstep::detail::cuda {
namespace {

constexpr Status to_status(cudaError_t error) { return static_cast<Status>(error); }
cudaStream_t native_stream(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(Event event) { return static_cast<cudaEvent_t>(event); }

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
static_assert(to_status(cudaErrorUnknown) == Status::unknown);

MemoryKind memory_kind(cudaMemoryType type) {
  switch (type) {
    case cudaMemoryTypeHost: return MemoryKind::host;
    case cudaMemoryTypeDevice: return MemoryKind::device;
    case cudaMemoryTypeManaged: return MemoryKind::managed;
    default: return MemoryKind::unregistered;
  }
}

/// Whether the calling thread has used a device. The CUDA runtime does not tell this, so this function asks the driver,
/// which the runtime has loaded. True if the driver does not tell.
bool has_context() {
  using GetCurrent = int (*)(void** context);
  static const auto get_current = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return driver != nullptr ? reinterpret_cast<GetCurrent>(dlsym(driver, "cuCtxGetCurrent")) : nullptr;
  }();
  void* context = nullptr;
  return get_current == nullptr || get_current(&context) != 0 || context != nullptr;
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
    properties = {.name = found.name,
                  .pci_bus_id = bus_id,
                  .major = found.major,
                  .minor = found.minor,
                  .multiprocessors = found.multiProcessorCount,
                  .memory_bytes = found.totalGlobalMem};
    static_assert(sizeof found.uuid.bytes == sizeof properties.uuid);
    std::memcpy(properties.uuid.data(), found.uuid.bytes, sizeof found.uuid.bytes);
    return Status::success;
  }

  Status pointer_attributes(const void* pointer, PointerAttributes& attributes) override {
    cudaPointerAttributes found;
    if (const auto error = cudaPointerGetAttributes(&found, pointer); error != cudaSuccess) return to_status(error);
    attributes = {.kind = memory_kind(found.type), .device = found.device};
    return Status::success;
  }

  Status malloc_async(void*& block, std::size_t bytes, Stream stream) override {
    return to_status(cudaMallocAsync(&block, bytes, native_stream(stream)));
  }
  Status free_async(void* block, Stream stream) override {
    return to_status(cudaFreeAsync(block, native_stream(stream)));
  }
  Status set_pool_threshold(int device, std::uint64_t bytes) override {
    cudaMemPool_t pool = nullptr;
    if (const auto error = cudaDeviceGetDefaultMemPool(&pool, device); error != cudaSuccess) return to_status(error);
    return to_status(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
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

  Status stream_create(Stream& stream) override {
    cudaStream_t made = nullptr;
    const auto error = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    stream = made;
    return to_status(error);
  }
  Status stream_destroy(Stream stream) override { return to_status(cudaStreamDestroy(native_stream(stream))); }
  Status stream_query(Stream stream) override { return to_status(cudaStreamQuery(native_stream(stream))); }
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
