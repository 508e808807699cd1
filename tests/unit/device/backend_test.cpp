// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/backend.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

using lockstep::test::expect_error;

/// A machine as the first probe sees it. No other call works.
class Machine : public Api {
 public:
  int driver = 13000;
  Status driver_status = Status::success;
  int devices = 1;
  Status count_status = Status::success;
  int broken_device = -1;  ///< the device whose properties cannot be read
  int old_device = -1;     ///< the device with compute capability 7.5
  int device_without_pools = -1;
  bool has_error = false;  ///< whether an error was left behind

  Status driver_version(int& version) override {
    version = driver;
    return noted(driver_status);
  }
  Status runtime_version(int& version) override {
    version = 12080;
    return Status::success;
  }
  Status device_count(int& count) override {
    if (count_status == Status::success) count = devices;
    return noted(count_status);
  }
  Status device_properties(int device, DeviceProperties& properties) override {
    if (device == broken_device) return noted(Status::unknown);
    properties.name = "GPU number " + std::to_string(device);
    const int capability = device == old_device ? 75 : 90;
    properties.major = capability / 10;
    properties.minor = capability % 10;
    properties.has_memory_pools = device != device_without_pools;
    return Status::success;
  }
  Status take_last_error() override {
    has_error = false;
    return Status::success;
  }
  std::string error_name(Status) const override { return "cudaErrorUnknown"; }
  std::string error_string(Status) const override { return "unknown error"; }

  Status set_device(int) override { return Status::unknown; }
  Status get_device(int&) override { return Status::unknown; }
  Status pointer_attributes(const void*, PointerAttributes&) override { return Status::unknown; }
  Status pool_create(Pool&, int) override { return Status::unknown; }
  Status pool_destroy(Pool) override { return Status::unknown; }
  Status pool_set_attribute(Pool, PoolAttribute, std::uint64_t) override { return Status::unknown; }
  Status malloc_from_pool_async(void*&, std::size_t, Pool, Stream) override { return Status::unknown; }
  Status free_async(void*, Stream) override { return Status::unknown; }
  Status malloc_host(void*&, std::size_t) override { return Status::unknown; }
  Status free_host(void*) override { return Status::unknown; }
  Status memcpy_async(void*, const void*, std::size_t, Stream) override { return Status::unknown; }
  Status memcpy_peer_async(void*, int, const void*, int, std::size_t, Stream) override { return Status::unknown; }
  Status memset_async(void*, int, std::size_t, Stream) override { return Status::unknown; }
  Status stream_priority_range(int&, int&) override { return Status::unknown; }
  Status stream_create(Stream&, int) override { return Status::unknown; }
  Status stream_is_capturing(Stream, bool&) override { return Status::unknown; }
  Status exchange_capture_mode(CaptureMode&) override { return Status::unknown; }
  Status stream_destroy(Stream) override { return Status::unknown; }
  Status stream_query(Stream) override { return Status::unknown; }
  Status stream_wait_event(Stream, Event) override { return Status::unknown; }
  Status event_create(Event&) override { return Status::unknown; }
  Status event_destroy(Event) override { return Status::unknown; }
  Status event_record(Event, Stream) override { return Status::unknown; }
  Status event_query(Event) override { return Status::unknown; }
  void range_push(const char*) override {}
  void range_pop() override {}

 private:
  Status noted(Status status) {
    has_error = has_error || status != Status::success;
    return status;
  }
};

/// The reason why there is no GPU on `machine`; expects that no error is left behind for the program's own CUDA calls.
std::string why_not(const Machine& machine) {
  const auto table = std::make_shared<Machine>(machine);
  const Backend backend({.api = table, .kernels = nullptr, .nccl = nullptr});
  EXPECT_EQ(backend.device_count(), 0);
  EXPECT_FALSE(table->has_error);
  return backend.found().why;
}

Device gpu(int index, int logical = 0) { return {.kind = DeviceKind::gpu, .index = index, .logical = logical}; }

TEST(GpuBackend, reports_a_build_without_cuda) {
  const Backend backend({});
  EXPECT_EQ(backend.found().why, "built without CUDA");
  EXPECT_EQ(backend.device_count(), 0);
}

TEST(GpuBackend, reports_a_missing_driver) {
  Machine machine;
  machine.driver = 0;
  EXPECT_EQ(why_not(machine), "no CUDA driver");
  machine.driver = 13000;
  machine.driver_status = Status::stub_library;
  EXPECT_EQ(why_not(machine), "no CUDA driver");
}

TEST(GpuBackend, reports_the_version_of_a_driver_that_is_too_old) {
  Machine machine;
  machine.driver = 11040;
  machine.count_status = Status::insufficient_driver;
  EXPECT_EQ(why_not(machine), "the driver is too old: it supports CUDA 11.4, but lockstep was built with CUDA 12.8");
}

TEST(GpuBackend, reports_that_no_gpu_is_visible) {
  Machine machine;
  machine.devices = 0;
  EXPECT_EQ(why_not(machine), "no GPU is visible");
  machine.count_status = Status::no_device;
  EXPECT_EQ(why_not(machine), "no GPU is visible");
}

TEST(GpuBackend, reports_a_failed_start_with_cudas_error_text) {
  Machine machine;
  machine.count_status = Status::unknown;
  EXPECT_EQ(why_not(machine), "cannot initialize CUDA: unknown error (cudaErrorUnknown)");
}

TEST(GpuBackend, treats_a_gpu_without_properties_as_a_failed_start) {
  Machine machine;
  machine.devices = 2;
  machine.broken_device = 1;
  EXPECT_EQ(why_not(machine), "cannot initialize CUDA: unknown error (cudaErrorUnknown)");
}

TEST(GpuBackend, reports_a_gpu_for_which_there_are_no_kernels) {
  Machine machine;
  machine.old_device = 0;
  EXPECT_EQ(why_not(machine),
            "gpu:0 (GPU number 0) cannot be used: its compute capability is 7.5; the kernels need 8.0 or newer");
  machine.devices = 2;
  EXPECT_EQ(why_not(machine),
            "gpu:0 (GPU number 0) cannot be used: its compute capability is 7.5; the kernels need 8.0 or newer; set "
            "CUDA_VISIBLE_DEVICES to the GPUs after it to use them");
}

TEST(GpuBackend, reports_a_driver_without_memory_pools) {
  Machine machine;
  machine.device_without_pools = 0;
  EXPECT_EQ(why_not(machine),
            "gpu:0 (GPU number 0) cannot be used: its driver has no memory pools (cudaDevAttrMemoryPoolsSupported)");
}

TEST(GpuBackend, keeps_the_gpus_before_one_that_cannot_be_used) {
  const auto machine = std::make_shared<Machine>();
  machine->devices = 3;
  machine->old_device = 1;
  const Backend backend({.api = machine, .kernels = nullptr, .nccl = nullptr});
  EXPECT_EQ(backend.device_count(), 1);
  EXPECT_EQ(backend.found().why, "");
  expect_error(Code::unavailable, {"copy: gpu:2 is not available; this process has gpu:0; gpu:1 (GPU number 1) cannot"},
               [&] { backend.require(gpu(2), "copy"); });
}

TEST(GpuBackend, finds_every_gpu) {
  const auto machine = std::make_shared<Machine>();
  machine->devices = 2;
  const Backend backend({.api = machine, .kernels = nullptr, .nccl = nullptr});
  ASSERT_EQ(backend.device_count(), 2);
  EXPECT_EQ(backend.found().why, "");
  EXPECT_EQ(backend.found().devices[1].name, "GPU number 1");
  EXPECT_EQ(backend.found().driver_version, 13000);
  EXPECT_EQ(backend.found().runtime_version, 12080);
}

TEST(GpuBackend, lists_the_gpus_when_another_one_is_required) {
  const auto machine = std::make_shared<Machine>();
  machine->devices = 2;
  const Backend two({.api = machine, .kernels = nullptr, .nccl = nullptr});
  two.require(gpu(0), "copy");
  two.require(gpu(1, 3), "copy");
  expect_error(Code::unavailable, {"copy: gpu:2 is not available; this process has gpu:0 to gpu:1"},
               [&] { two.require(gpu(2), "copy"); });
  expect_error(Code::unavailable, {"copy: gpu:-1 is not available"}, [&] { two.require(gpu(-1), "copy"); });
  expect_error(Code::invalid_argument, {"copy: cpu:0 is not a GPU"}, [&] { two.require(Device{}, "copy"); });

  const Backend one({.api = std::make_shared<Machine>(), .kernels = nullptr, .nccl = nullptr});
  expect_error(Code::unavailable, {"copy: gpu:1 is not available; this process has gpu:0"},
               [&] { one.require(gpu(1), "copy"); });
}

TEST(GpuBackend, tells_why_there_is_no_gpu_when_one_is_required) {
  expect_error(Code::unavailable, {"copy: gpu:0 is not available: built without CUDA"},
               [] { Backend({}).require(gpu(0), "copy"); });
}

TEST(GpuBackend, is_the_installed_one_during_a_test) {
  const auto machine = std::make_shared<Machine>();
  machine->devices = 7;
  const int before = Backend::of_this_process().device_count();
  {
    const InstalledTables installed({.api = machine, .kernels = nullptr, .nccl = nullptr});
    EXPECT_EQ(Backend::of_this_process().device_count(), 7);
  }
  EXPECT_EQ(Backend::of_this_process().device_count(), before);
}

TEST(GpuBackend, uses_the_nccl_of_its_tables) {
  const auto library = std::make_shared<const nccl::Library>(nccl::Library{.version = 22809, .path = "here"});
  Backend backend({.api = std::make_shared<Machine>(), .kernels = nullptr, .nccl = library});
  EXPECT_EQ(backend.nccl().version, 22809);
  EXPECT_EQ(backend.nccl().path, "here");
}

}  // namespace
}  // namespace lockstep::detail::cuda
