// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/memory.hpp"
#include "device/cuda/streams.hpp"
#include "unit/device/gpu_fixture.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using detail::cuda::Status;
using detail::cuda::StreamBlock;
using test::elements_of;
using test::Gate;
using test::gpu;
using test::numbers;

class GpuMemory : public test::GpuTest {};

TEST_F(GpuMemory, is_freed_in_order_with_its_stream) {
  Tensor tensor = numbers(1000).to(gpu(0));
  synchronize(gpu(0));
  {
    Gate gate(cuda(), stream_handle(gpu(0)));
    tensor = Tensor();
    EXPECT_GE(cuda().used_bytes(0), 4000U);
  }
  synchronize(gpu(0));
  EXPECT_EQ(cuda().used_bytes(0), 0U);
}

TEST_F(GpuMemory, comes_from_a_pool_of_the_gpu_that_keeps_it_and_never_waits_for_another_stream) {
  EXPECT_EQ(cuda().pools_of(1).size(), 0U);
  static_cast<void>(gpu_memory_resource(gpu(1)));
  static_cast<void>(gpu_memory_resource(gpu(1, 1)));
  ASSERT_EQ(cuda().pools_of(1).size(), 1U);
  EXPECT_EQ(cuda().pools_of(1).front().release_threshold, std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(cuda().pools_of(1).front().reuses_internal_dependencies);
  EXPECT_EQ(cuda().pools_of(0).size(), 0U);
  const int allocations = cuda().calls().count("malloc_from_pool_async");
  const Tensor tensor(DType::f32, Shape{10}, nullptr, gpu(1));
  EXPECT_EQ(cuda().calls().count("malloc_from_pool_async"), allocations + 1);
}

TEST_F(GpuMemory, has_one_resource_for_each_logical_device) {
  EXPECT_EQ(gpu_memory_resource(gpu(0)), gpu_memory_resource(gpu(0)));
  EXPECT_NE(gpu_memory_resource(gpu(0)), gpu_memory_resource(gpu(0, 1)));
  EXPECT_NE(stream_handle(gpu(0)), stream_handle(gpu(0, 1)));
  EXPECT_NE(stream_handle(gpu(0)), stream_handle(gpu(1)));
}

TEST_F(GpuMemory, that_is_exhausted_is_bad_alloc_and_leaves_no_error_behind) {
  const Tensor held = numbers(1000).to(gpu(0));
  try {
    Tensor(DType::u8, Shape{65 << 20}, nullptr, gpu(0));
    ADD_FAILURE() << "more memory was allocated than the GPU has";
  } catch (const std::bad_alloc& error) {
    EXPECT_STREQ(error.what(), "out of memory on gpu:0: 68157440 bytes requested");
  }
  EXPECT_EQ(cuda().take_last_error(), Status::success);
  const Tensor smaller(DType::u8, Shape{32 << 20}, nullptr, gpu(0));
  EXPECT_EQ(smaller.device(), gpu(0));
  EXPECT_EQ(elements_of(held)[999], 999);
}

TEST_F(GpuMemory, is_allocated_for_tensors_without_elements_too) {
  const Tensor empty(DType::f32, Shape{0, 3}, nullptr, gpu(0));
  EXPECT_NE(empty.data(), nullptr);
  EXPECT_EQ(empty.to(Device{}).element_count(), 0);
  EXPECT_EQ(empty.clone().device(), gpu(0));
}

TEST_F(GpuMemory, of_a_block_moves_with_it_and_can_be_leaked) {
  const auto stream = detail::cuda::stream_of(gpu(0));
  const auto used = [this] {
    synchronize(gpu(0));
    return cuda().used_bytes(0);
  };
  StreamBlock block(1000, 0, stream);
  void* const data = block.data();
  StreamBlock moved = std::move(block);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(moved.size(), 1000U);
  const std::size_t one = used();
  moved = StreamBlock(1000, 0, stream);
  EXPECT_EQ(used(), one);
  void* const lost = moved.data();
  moved.leak();
  moved = StreamBlock();
  EXPECT_EQ(used(), one);
  EXPECT_EQ(cuda().free_async(lost, stream), Status::success);
}

TEST_F(GpuMemory, is_allocated_on_its_device_whatever_device_is_current) {
  ASSERT_EQ(cuda().set_device(1), Status::success);
  const Tensor tensor = numbers(10).to(gpu(0));
  int device = -1;
  ASSERT_EQ(cuda().get_device(device), Status::success);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cuda().used_bytes(1), 0U);
  EXPECT_GT(cuda().used_bytes(0), 0U);
  EXPECT_EQ(elements_of(tensor)[9], 9);
}

TEST_F(GpuMemory, is_not_used_for_tensors_on_hosts) {
  const int before = cuda().calls().count("get_device");
  Tensor tensor = numbers(1000);
  Tensor(DType::f32, Shape{1000}).copy_from(tensor.clone().view());
  synchronize(Device{});
  EXPECT_EQ(cuda().calls().count("get_device"), before);
  EXPECT_EQ(cuda().calls().count("malloc_host"), 0);
  EXPECT_EQ(cuda().calls().count("stream_create"), 0);
}

TEST_F(GpuMemory, that_is_pinned_is_kept_for_the_next_request) {
  const auto resource = pinned_memory_resource();
  void* const first = resource->allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % MemoryResource::alignment, 0U);
  void* const other = resource->allocate(1000);
  EXPECT_NE(other, first);
  resource->deallocate(first, 1000);
  const int calls = cuda().calls().count("malloc_host");
  EXPECT_EQ(resource->allocate(900), first);
  EXPECT_EQ(cuda().calls().count("malloc_host"), calls);
  resource->deallocate(first, 900);
  resource->deallocate(other, 1000);
}

TEST_F(GpuMemory, that_is_pinned_is_kept_up_to_a_bound_and_freed_at_the_end) {
  auto resource = detail::cuda::pinned_memory(0, 20'000);
  for (const std::size_t bytes : {0U, 1U, 4096U, 4097U, 100'000U}) {
    void* const block = resource->allocate(bytes);
    ASSERT_NE(cuda().bytes_at(block, bytes), nullptr);
    resource->deallocate(block, bytes);
  }
  std::vector<void*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(resource->allocate(8192));
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), 5U);
  for (void* const block : blocks) resource->deallocate(block, 8192);
  EXPECT_LE(cuda().host_blocks(), 3U);
  EXPECT_GE(cuda().host_blocks(), 1U);
  resource.reset();
  EXPECT_EQ(cuda().host_blocks(), 0U);
}

TEST_F(GpuMemory, that_cannot_be_pinned_is_bad_alloc) {
  cuda().calls().fail("malloc_host", 1, Status::out_of_memory);
  try {
    static_cast<void>(pinned_memory_resource()->allocate(10));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::bad_alloc& error) {
    EXPECT_STREQ(error.what(), "cannot allocate 4096 bytes of pinned memory");
  }
  EXPECT_EQ(cuda().take_last_error(), Status::success);
}

TEST_F(GpuMemory, serves_several_threads) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 20; ++round) {
        const Tensor tensor = numbers(100, static_cast<float>(t)).to(gpu(t % 2, t / 2));
        EXPECT_EQ(elements_of(tensor.clone())[99], static_cast<float>(t) + 99);
      }
    });
  }
}

TEST(GpuBackend, leaves_nothing_behind) {
  const auto cuda = std::make_shared<test::FakeCuda>(test::FakeCudaOptions{.devices = 2});
  std::optional<Gate> gate;
  std::jthread opening;
  {
    const detail::cuda::InstalledTables tables({.api = cuda, .kernels = nullptr, .nccl = nullptr});
    for (const Device device : {gpu(0), gpu(0, 1), gpu(1)}) EXPECT_EQ(elements_of(numbers(5).to(device))[4], 4);
    static_cast<void>(Tensor(DType::f32, Shape{5}, pinned_memory_resource()).to(gpu(1)));
    EXPECT_GT(cuda->host_blocks(), 0U);
    gate.emplace(*cuda, stream_handle(gpu(1)));
    static_cast<void>(numbers(10).to(gpu(1)));  // still in flight when the tables are destroyed
    opening = std::jthread([&gate] { gate.reset(); });
  }
  EXPECT_EQ(cuda->host_blocks(), 0U);
  EXPECT_EQ(cuda->used_bytes(0), 0U);
  EXPECT_EQ(cuda->used_bytes(1), 0U);
  EXPECT_EQ(cuda->calls().count("event_create"), cuda->calls().count("event_destroy"));
  EXPECT_EQ(cuda->calls().count("stream_create"), 3);
  EXPECT_EQ(cuda->calls().count("stream_destroy"), 3);
}

}  // namespace
}  // namespace lockstep
