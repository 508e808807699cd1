// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The real table of CUDA calls, on machines without a driver and with a GPU.

#include "bindings/cuda/cuda.hpp"
#include "device/cuda/backend.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

using lockstep::test::expect_error;

TEST(CudaTable, exists_and_is_the_same_each_time) {
  ASSERT_NE(real_api(), nullptr);
  EXPECT_EQ(real_api(), real_api());
}

TEST(CudaTable, gives_cudas_error_texts) {
  const auto api = real_api();
  EXPECT_EQ(api->error_name(Status::out_of_memory), "cudaErrorMemoryAllocation");
  EXPECT_EQ(api->error_string(Status::out_of_memory), "out of memory");
  EXPECT_NO_THROW(check(*api, Status::success, "cudaMallocAsync"));
  expect_error(Code::unavailable, {"cudaMallocAsync failed: out of memory (cudaErrorMemoryAllocation)"},
               [&] { check(*api, Status::out_of_memory, "cudaMallocAsync"); });
}

TEST(CudaTable, reports_a_missing_driver) {
  const auto api = real_api();
  int version = -1;
  ASSERT_EQ(api->driver_version(version), Status::success);
  if (version != 0) GTEST_SKIP() << "this machine has a driver, of CUDA " << version;
  testing::internal::CaptureStderr();
  EXPECT_EQ(api->runtime_version(version), Status::success);
  int count = -1;
  EXPECT_EQ(api->device_count(count), Status::insufficient_driver);
  EXPECT_EQ(Backend::of_this_process().found().why, "no CUDA driver");
  EXPECT_EQ(Backend::of_this_process().device_count(), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

/// Polls, as lockstep does everywhere: no call here blocks in CUDA.
Status wait_for(Api& api, Event event) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  Status status = api.event_query(event);
  while (status == Status::not_ready && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    status = api.event_query(event);
  }
  return status;
}

class CudaTableOnAGpu : public testing::Test {
 protected:
  void SetUp() override {
    const Found& found = Backend::of_this_process().found();
    if (!found.why.empty()) GTEST_SKIP() << found.why;
    ASSERT_EQ(api.set_device(0), Status::success);
  }

  Api& api = *real_api();
};

TEST_F(CudaTableOnAGpu, reports_the_properties_of_the_device) {
  int device = -1;
  EXPECT_EQ(api.get_device(device), Status::success);
  EXPECT_EQ(device, 0);
  const DeviceProperties& properties = Backend::of_this_process().found().devices.front();
  EXPECT_FALSE(properties.name.empty());
  EXPECT_EQ(properties.pci_bus_id.size(), std::string("0000:1b:00.0").size());
  EXPECT_NE(properties.uuid, DeviceProperties{}.uuid);
  EXPECT_GE(properties.major, 5);
  EXPECT_GT(properties.multiprocessors, 0);
  EXPECT_GT(properties.memory_bytes, std::size_t{1} << 30);
}

TEST_F(CudaTableOnAGpu, reports_that_a_thread_has_used_no_device) {
  int before = 0;
  int after = -1;
  std::thread([&] {
    EXPECT_EQ(api.get_device(before), Status::success);
    EXPECT_EQ(api.set_device(0), Status::success);
    EXPECT_EQ(api.get_device(after), Status::success);
  }).join();
  EXPECT_EQ(before, -1);
  EXPECT_EQ(after, 0);
}

TEST_F(CudaTableOnAGpu, copies_to_the_gpu_and_back_in_the_order_of_events) {
  constexpr std::size_t bytes = 1 << 20;
  Stream first = nullptr;
  Stream second = nullptr;
  Event filled = nullptr;
  Event copied = nullptr;
  void* block = nullptr;
  void* pinned = nullptr;
  Pool pool = nullptr;
  ASSERT_EQ(api.pool_create(pool, 0), Status::success);
  ASSERT_EQ(api.pool_set_attribute(pool, PoolAttribute::release_threshold, bytes), Status::success);
  ASSERT_EQ(api.pool_set_attribute(pool, PoolAttribute::reuse_internal_dependencies, 0), Status::success);
  int least = 0;
  int greatest = 0;
  ASSERT_EQ(api.stream_priority_range(least, greatest), Status::success);
  EXPECT_LE(greatest, least);
  ASSERT_EQ(api.stream_create(first, 0), Status::success);
  ASSERT_EQ(api.stream_create(second, greatest), Status::success);
  ASSERT_EQ(api.event_create(filled), Status::success);
  ASSERT_EQ(api.event_create(copied), Status::success);
  ASSERT_EQ(api.malloc_from_pool_async(block, bytes, pool, first), Status::success);
  ASSERT_EQ(api.malloc_host(pinned, bytes), Status::success);

  EXPECT_EQ(api.memset_async(block, 0x5A, bytes, first), Status::success);
  EXPECT_EQ(api.event_record(filled, first), Status::success);
  EXPECT_EQ(api.stream_wait_event(second, filled), Status::success);
  EXPECT_EQ(api.memcpy_async(pinned, block, bytes, second), Status::success);
  EXPECT_EQ(api.event_record(copied, second), Status::success);
  ASSERT_EQ(wait_for(api, copied), Status::success);
  EXPECT_EQ(api.stream_query(second), Status::success);
  const auto* const data = static_cast<const unsigned char*>(pinned);
  EXPECT_EQ(std::vector<unsigned char>(data, data + bytes), std::vector<unsigned char>(bytes, 0x5A));

  PointerAttributes attributes;
  EXPECT_EQ(api.pointer_attributes(block, attributes), Status::success);
  EXPECT_EQ(attributes.kind, MemoryKind::device);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(api.pointer_attributes(pinned, attributes), Status::success);
  EXPECT_EQ(attributes.kind, MemoryKind::host);
  EXPECT_EQ(api.pointer_attributes(&attributes, attributes), Status::success);
  EXPECT_EQ(attributes.kind, MemoryKind::unregistered);

  bool is_capturing = true;
  EXPECT_EQ(api.stream_is_capturing(first, is_capturing), Status::success);
  EXPECT_FALSE(is_capturing);
  CaptureMode mode = CaptureMode::relaxed;
  EXPECT_EQ(api.exchange_capture_mode(mode), Status::success);
  EXPECT_EQ(mode, CaptureMode::global);
  EXPECT_EQ(api.exchange_capture_mode(mode), Status::success);
  EXPECT_EQ(mode, CaptureMode::relaxed);

  EXPECT_EQ(api.free_async(block, second), Status::success);
  EXPECT_EQ(api.free_host(pinned), Status::success);
  EXPECT_EQ(api.event_destroy(filled), Status::success);
  EXPECT_EQ(api.event_destroy(copied), Status::success);
  EXPECT_EQ(api.stream_destroy(first), Status::success);
  EXPECT_EQ(api.stream_destroy(second), Status::success);
  EXPECT_EQ(api.pool_destroy(pool), Status::success);
}

TEST_F(CudaTableOnAGpu, returns_cudas_status_and_clears_it_on_request) {
  EXPECT_EQ(api.set_device(1'000'000), Status::invalid_device);
  EXPECT_EQ(api.take_last_error(), Status::invalid_device);
  EXPECT_EQ(api.take_last_error(), Status::success);
}

}  // namespace
}  // namespace lockstep::detail::cuda
