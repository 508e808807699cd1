// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_cuda.hpp"

#include "device/cuda/backend.hpp"
#include "support/fake_gpus.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail::cuda;

constexpr std::size_t block_bytes = 4096;

Stream new_stream(FakeCuda& cuda, int device = 0) {
  Stream stream = nullptr;
  EXPECT_EQ(cuda.set_device(device), Status::success);
  EXPECT_EQ(cuda.stream_create(stream, 0), Status::success);
  return stream;
}

std::byte* new_block(FakeCuda& cuda, Stream stream, std::size_t bytes = block_bytes) {
  void* block = nullptr;
  EXPECT_EQ(cuda.malloc_async(block, bytes, stream), Status::success);
  return static_cast<std::byte*>(block);
}

Event new_event(FakeCuda& cuda) {
  Event event = nullptr;
  EXPECT_EQ(cuda.event_create(event), Status::success);
  return event;
}

/// Work that keeps a stream busy.
FakeStreams::Work late(std::chrono::milliseconds duration) {
  return [duration] {
    std::this_thread::sleep_for(duration);
    return Status::success;
  };
}

/// Work that keeps a stream busy until the latch opens.
FakeStreams::Work until(std::latch& latch) {
  return [&latch] {
    latch.wait();
    return Status::success;
  };
}

template <class T>
std::vector<T> read(FakeCuda& cuda, const void* block, std::size_t count, Stream stream) {
  std::vector<T> values(count);
  EXPECT_EQ(cuda.memcpy_async(values.data(), block, count * sizeof(T), stream), Status::success);
  return values;
}

template <class T>
void write(FakeCuda& cuda, void* block, const std::vector<T>& values, Stream stream) {
  EXPECT_EQ(cuda.memcpy_async(block, values.data(), values.size() * sizeof(T), stream), Status::success);
}

std::vector<float> counted(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(FakeCuda, is_found_like_any_other) {
  const FakeGpus gpus({.devices = 3, .machine = 7});
  Backend& backend = Backend::of_this_process();
  EXPECT_EQ(backend.device_count(), 3);
  EXPECT_EQ(backend.found().why, "");
  EXPECT_NE(backend.found().devices[0].uuid, backend.found().devices[1].uuid);
  EXPECT_NE(backend.found().devices[0].pci_bus_id, backend.found().devices[1].pci_bus_id);
  FakeCuda same({.devices = 2, .machine = 7});
  EXPECT_EQ(same.uuid(1), backend.found().devices[1].uuid);
  FakeCuda other({.devices = 2, .machine = 8});
  EXPECT_NE(other.uuid(1), same.uuid(1));
  EXPECT_EQ(backend.nccl().version, 22809);
}

TEST(FakeCuda, is_not_found_without_devices_or_driver) {
  {
    const FakeGpus gpus({.devices = 0});
    EXPECT_EQ(Backend::of_this_process().found().why, "no GPU is visible");
  }
  {
    const FakeGpus gpus({.driver_version = 0});
    EXPECT_EQ(Backend::of_this_process().found().why, "no CUDA driver");
  }
  const FakeGpus gpus({.driver_version = 11080}, {.absent = "it was never here"});
  EXPECT_NE(Backend::of_this_process().found().why.find("too old"), std::string::npos);
  EXPECT_EQ(Backend::of_this_process().nccl().api, nullptr);
  EXPECT_EQ(Backend::of_this_process().nccl().why, "it was never here");
}

TEST(FakeCuda, knows_what_an_address_is) {
  FakeCuda cuda({.devices = 2});
  const Stream stream = new_stream(cuda, 1);
  std::byte* const block = new_block(cuda, stream);
  void* host = nullptr;
  ASSERT_EQ(cuda.malloc_host(host, 100), Status::success);
  const auto kind_of = [&](const void* pointer) {
    PointerAttributes attributes;
    EXPECT_EQ(cuda.pointer_attributes(pointer, attributes), Status::success);
    return std::pair(attributes.kind, attributes.device);
  };
  EXPECT_EQ(kind_of(block + block_bytes - 1), std::pair(MemoryKind::device, 1));
  EXPECT_EQ(kind_of(block + block_bytes).first, MemoryKind::unregistered);
  EXPECT_EQ(kind_of(host).first, MemoryKind::host);
  EXPECT_EQ(kind_of(&cuda).first, MemoryKind::unregistered);
  ASSERT_EQ(cuda.free_async(block, stream), Status::success);
  ASSERT_TRUE(cuda.wait(stream));
  EXPECT_EQ(kind_of(block).first, MemoryKind::unregistered);
  EXPECT_EQ(cuda.free_host(host), Status::success);
  EXPECT_EQ(cuda.used_bytes(1), 0u);
  EXPECT_EQ(cuda.host_blocks(), 0u);
}

TEST(FakeCuda, copies_between_any_two_places) {
  FakeCuda cuda({.devices = 2});
  const Stream stream = new_stream(cuda);
  std::byte* const first = new_block(cuda, stream);
  const Stream other = new_stream(cuda, 1);
  std::byte* const second = new_block(cuda, other);
  ASSERT_TRUE(cuda.wait_for_all());
  void* host = nullptr;
  ASSERT_EQ(cuda.malloc_host(host, block_bytes), Status::success);
  const auto values = counted(block_bytes / sizeof(float), 1);
  write(cuda, first, values, stream);
  EXPECT_EQ(cuda.memcpy_async(second, first, block_bytes, stream), Status::invalid_value);
  EXPECT_EQ(cuda.memcpy_peer_async(second, 0, first, 1, block_bytes, stream), Status::invalid_value);
  ASSERT_EQ(cuda.memcpy_peer_async(second, 1, first, 0, block_bytes, stream), Status::success);
  ASSERT_EQ(cuda.memcpy_async(host, second, block_bytes, stream), Status::success);
  ASSERT_EQ(cuda.memset_async(second, 0, block_bytes, stream), Status::success);
  EXPECT_EQ(read<float>(cuda, host, values.size(), stream), values);
  EXPECT_EQ(read<float>(cuda, second, values.size(), stream), std::vector<float>(values.size()));
}

TEST(FakeCuda, takes_pageable_memory_at_once_and_page_locked_memory_in_order) {
  FakeCuda cuda;
  const Stream stream = new_stream(cuda);
  std::byte* const block = new_block(cuda, stream);
  void* host = nullptr;
  ASSERT_EQ(cuda.malloc_host(host, sizeof(int)), Status::success);
  int pageable = 1;
  std::memcpy(host, &pageable, sizeof(int));
  // nothing comes before the flag falls, and the host's writes before it are seen
  std::atomic<bool> may_go{false};
  cuda.streams().submit(stream, [&] {
    while (!may_go) std::this_thread::yield();
    return Status::success;
  });
  ASSERT_EQ(cuda.memcpy_async(block, &pageable, sizeof(int), stream), Status::success);
  ASSERT_EQ(cuda.memcpy_async(block + sizeof(int), host, sizeof(int), stream), Status::success);
  EXPECT_EQ(cuda.stream_query(stream), Status::not_ready);
  pageable = 2;
  std::memcpy(host, &pageable, sizeof(int));
  may_go = true;
  EXPECT_EQ(read<int>(cuda, block, 2, stream), (std::vector<int>{1, 2}));
}

TEST(FakeCuda, keeps_streams_in_order_by_events_alone) {
  FakeCuda cuda({.devices = 2});
  const Stream first = new_stream(cuda, 0);
  std::byte* const block = new_block(cuda, first);
  const Event event = new_event(cuda);
  EXPECT_EQ(cuda.event_query(event), Status::success);  // never recorded
  std::latch may_go_on(1);
  cuda.streams().submit(first, until(may_go_on));
  write(cuda, block, std::vector<int>{42}, first);
  ASSERT_EQ(cuda.event_record(event, first), Status::success);
  EXPECT_EQ(cuda.event_query(event), Status::not_ready);
  EXPECT_EQ(cuda.take_last_error(), Status::not_ready);
  EXPECT_EQ(cuda.take_last_error(), Status::success);
  const Stream second = new_stream(cuda, 1);
  EXPECT_EQ(cuda.event_record(event, second), Status::invalid_handle);  // of another device
  ASSERT_EQ(cuda.stream_wait_event(second, event), Status::success);
  may_go_on.count_down();
  EXPECT_EQ(read<int>(cuda, block, 1, second), std::vector<int>{42});
  EXPECT_EQ(cuda.event_query(event), Status::success);
  EXPECT_EQ(cuda.event_destroy(event), Status::success);
  EXPECT_EQ(cuda.event_query(event), Status::invalid_handle);
}

TEST(FakeCuda, finishes_the_work_of_a_stream_that_is_destroyed) {
  FakeCuda cuda;
  const Stream stream = new_stream(cuda);
  std::byte* const block = new_block(cuda, stream);
  cuda.streams().submit(stream, late(std::chrono::milliseconds(20)));
  write(cuda, block, std::vector<int>{7}, stream);
  ASSERT_EQ(cuda.stream_destroy(stream), Status::success);
  EXPECT_EQ(cuda.stream_query(stream), Status::invalid_handle);
  ASSERT_TRUE(cuda.wait_for_all());
  int value = 0;
  std::memcpy(&value, cuda.bytes_at(block, sizeof(int)), sizeof(int));
  EXPECT_EQ(value, 7);
  EXPECT_EQ(cuda.free_async(block, new_stream(cuda)), Status::success);
}

TEST(FakeCuda, frees_in_order_with_the_stream) {
  FakeCuda cuda;
  const Stream stream = new_stream(cuda);
  std::byte* const block = new_block(cuda, stream);
  ASSERT_TRUE(cuda.wait(stream));
  const std::byte* const bytes = cuda.bytes_at(block);
  ASSERT_NE(bytes, nullptr);
  std::latch may_go_on(1);
  cuda.streams().submit(stream, until(may_go_on));
  write(cuda, block, std::vector<int>{7}, stream);
  ASSERT_EQ(cuda.free_async(block, stream), Status::success);
  EXPECT_EQ(cuda.free_async(block, stream), Status::invalid_value);
  EXPECT_GT(cuda.used_bytes(0), 0u);
  may_go_on.count_down();
  ASSERT_TRUE(cuda.wait(stream));
  EXPECT_EQ(cuda.used_bytes(0), 0u);
  EXPECT_EQ(static_cast<int>(bytes[0]), FakeMemory::unset);
  EXPECT_EQ(cuda.stream_query(stream), Status::success);  // what came before the end was in order
}

TEST(FakeCuda, has_no_more_memory_than_it_says) {
  FakeCuda cuda({.memory_bytes = 1 << 20});
  const Stream stream = new_stream(cuda);
  std::byte* const most = new_block(cuda, stream, 600 << 10);
  void* more = nullptr;
  EXPECT_EQ(cuda.malloc_async(more, 600 << 10, stream), Status::out_of_memory);
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(cuda.take_last_error(), Status::out_of_memory);
  // memory whose free is pending counts as available
  cuda.streams().submit(stream, late(std::chrono::milliseconds(20)));
  ASSERT_EQ(cuda.free_async(most, stream), Status::success);
  EXPECT_EQ(cuda.malloc_async(more, 600 << 10, stream), Status::success);
  // and many small ones leave no holes
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte*> blocks;
    for (std::size_t i = 0; i < 8; ++i) blocks.push_back(new_block(cuda, stream, 1000 * (i + 1)));
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(cuda.free_async(blocks[i * 3 % 8], stream), Status::success);
  }
  EXPECT_EQ(cuda.free_async(more, stream), Status::success);
  ASSERT_TRUE(cuda.wait(stream));
  EXPECT_EQ(cuda.used_bytes(0), 0u);
}

TEST(FakeCudaDeathTest, ends_a_host_that_touches_device_memory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch = [] {
    FakeCuda cuda;
    std::byte* const block = new_block(cuda, new_stream(cuda));
    std::signal(SIGSEGV, SIG_DFL);  // sanitizers have handlers of their own
    static_cast<volatile std::byte&>(*block) = std::byte{1};
    std::_Exit(0);
  };
  EXPECT_EXIT(touch(), testing::KilledBySignal(SIGSEGV), "");
}

TEST(FakeCuda, lets_the_host_touch_device_memory_where_that_is_allowed) {
  FakeCuda cuda({.host_access = HostAccess::allowed});
  const Stream stream = new_stream(cuda);
  std::byte* const block = new_block(cuda, stream);
  EXPECT_EQ(static_cast<int>(block[0]), FakeMemory::unset);
  block[0] = std::byte{5};
  EXPECT_EQ(read<std::uint8_t>(cuda, block, 1, stream), std::vector<std::uint8_t>{5});
}

TEST(FakeCuda, gives_each_thread_a_device_of_its_own) {
  FakeCuda cuda({.devices = 2});
  ASSERT_EQ(cuda.set_device(1), Status::success);
  std::thread([&] {
    int device = -1;
    EXPECT_EQ(cuda.get_device(device), Status::success);
    EXPECT_EQ(device, 0);
  }).join();
  int device = -1;
  EXPECT_EQ(cuda.get_device(device), Status::success);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cuda.set_device(2), Status::invalid_device);
  EXPECT_EQ(cuda.current_device(), 1);
}

TEST(FakeCuda, fails_the_calls_that_it_is_told_to_fail) {
  FakeCuda cuda;
  const Stream stream = new_stream(cuda);
  cuda.calls().fail("malloc_async", 2, Status::out_of_memory);
  void* block = nullptr;
  EXPECT_EQ(cuda.malloc_async(block, 1, stream), Status::success);
  EXPECT_EQ(cuda.malloc_async(block, 1, stream), Status::out_of_memory);
  EXPECT_EQ(cuda.malloc_async(block, 1, stream), Status::success);
  EXPECT_EQ(cuda.calls().count("malloc_async"), 3);
  EXPECT_EQ(cuda.calls().count("free_async"), 0);
}

TEST(FakeCuda, goes_on_reporting_what_failed_on_a_device) {
  FakeCuda cuda({.devices = 2});
  const Stream stream = new_stream(cuda, 0);
  const Event event = new_event(cuda);
  std::byte* const block = new_block(cuda, stream);
  cuda.fail_next_work(0, Status::launch_failure);
  EXPECT_EQ(cuda.memset_async(block, 0, block_bytes, stream), Status::success);
  ASSERT_TRUE(cuda.wait(stream));
  EXPECT_EQ(cuda.memset_async(block, 0, block_bytes, stream), Status::launch_failure);
  EXPECT_EQ(cuda.stream_query(stream), Status::launch_failure);
  EXPECT_EQ(cuda.event_query(event), Status::launch_failure);
  EXPECT_EQ(cuda.take_last_error(), Status::launch_failure);
  EXPECT_EQ(cuda.take_last_error(), Status::launch_failure);
  const Stream healthy = new_stream(cuda, 1);
  EXPECT_EQ(cuda.stream_query(healthy), Status::success);
  EXPECT_EQ(cuda.take_last_error(), Status::success);
}

}  // namespace
}  // namespace lockstep::test
