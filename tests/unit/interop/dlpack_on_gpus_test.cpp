// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors on GPUs to and from other libraries.

#include "device/cuda/streams.hpp"
#include "support/expect_error.hpp"
#include "unit/device/gpu_fixture.hpp"

#include <lockstep/interop/dlpack.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace lockstep {
namespace {

using test::elements_of;
using test::expect_error;
using test::gpu;
using test::numbers;

class DLPackOnGpus : public test::GpuTest {};

/// Three floats of another library's at `data`, that do not begin there.
struct Shifted {
  explicit Shifted(void* data) {
    managed.dl_tensor = {data, {kDLCUDA, 1}, 1, {kDLFloat, 32, 1}, &extent, &stride, 2 * sizeof(float)};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Shifted*>(self->manager_ctx)->deletions; };
  }
  std::int64_t extent = 3;
  std::int64_t stride = 1;
  int deletions = 0;
  DLManagedTensor managed{};
};

TEST_F(DLPackOnGpus, every_type_comes_back_as_it_went) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    Tensor source(dtype, Shape{2, 3});
    auto* const bytes = static_cast<unsigned char*>(source.data());
    for (std::size_t k = 0; k < source.byte_count(); ++k) bytes[k] = static_cast<unsigned char>(k % 2);
    const Tensor there = source.to(gpu(1, 2));
    DLManagedTensor* const given = to_dlpack(there);
    EXPECT_EQ(given->dl_tensor.device.device_type, kDLCUDA);
    EXPECT_EQ(given->dl_tensor.device.device_id, 1);
    synchronize(gpu(1, 2));
    const Tensor back = from_dlpack(given);
    EXPECT_EQ(back.device(), gpu(1));
    EXPECT_EQ(back.data(), there.data());
    const Tensor here = back.to(Device{});
    EXPECT_EQ(here.dtype(), dtype);
    EXPECT_EQ(here.shape(), source.shape());
    EXPECT_EQ(std::memcmp(here.data(), source.data(), source.byte_count()), 0) << to_string(dtype);
  }
  synchronize(gpu(1));  // releases what from_dlpack has kept
}

TEST_F(DLPackOnGpus, memory_is_given_back_when_the_other_library_lets_it_go) {
  DLManagedTensor* const given = to_dlpack(numbers(1000).to(gpu(0)));
  synchronize(gpu(0));
  EXPECT_GE(cuda().used_bytes(0), 4000U);
  given->deleter(given);
  synchronize(gpu(0));
  EXPECT_EQ(cuda().used_bytes(0), 0U);
}

TEST_F(DLPackOnGpus, an_offset_is_where_the_elements_begin) {
  Tensor memory = numbers(5).to(gpu(1));
  Shifted shifted(memory.data());
  {
    const Tensor tensor = from_dlpack(&shifted.managed);
    EXPECT_EQ(elements_of(tensor), (std::vector<float>{2, 3, 4}));
    EXPECT_EQ(shifted.deletions, 0);
  }
  synchronize(gpu(1));
  EXPECT_EQ(shifted.deletions, 1);
}

TEST_F(DLPackOnGpus, memory_of_another_library_is_kept_until_the_copy_from_it_has_ended) {
  Tensor memory = numbers(5).to(gpu(1));
  Shifted shifted(memory.data());
  synchronize(gpu(1));
  test::Gate gate(cuda(), stream_handle(gpu(1)));
  const Tensor copied = from_dlpack(&shifted.managed).clone();
  EXPECT_EQ(shifted.deletions, 0) << "the copy has not begun";
  gate.open();
  EXPECT_EQ(elements_of(copied), (std::vector<float>{2, 3, 4}));
  synchronize(gpu(1));
  EXPECT_EQ(shifted.deletions, 1);
}

TEST_F(DLPackOnGpus, streams_of_the_other_library_are_ordered_both_ways) {
  const detail::cuda::OwnedStream theirs(1);
  Tensor memory(DType::f32, Shape{5}, nullptr, gpu(1));
  synchronize(gpu(1));
  Shifted shifted(memory.data());
  {
    test::Gate gate(cuda(), theirs.get());
    ASSERT_EQ(cuda().memset_async(memory.data(), 0x40, 20, theirs.get()), detail::cuda::Status::success);
    const Tensor copied = from_dlpack(&shifted.managed, theirs.get()).clone();  // after their write
    gate.open();
    EXPECT_EQ(elements_of(copied)[0], 3.0039215F);  // 0x40404040
  }

  DLManagedTensor* given = nullptr;
  Tensor seen(DType::f32, Shape{3}, pinned_memory_resource());
  {
    test::Gate gate(cuda(), stream_handle(gpu(1)));
    given = to_dlpack(numbers(3).to(gpu(1)), theirs.get());  // their stream waits for this copy
    ASSERT_EQ(cuda().memcpy_async(seen.data(), given->dl_tensor.data, 12, theirs.get()), detail::cuda::Status::success);
    gate.open();
    EXPECT_TRUE(cuda().wait(theirs.get()));
    EXPECT_EQ(elements_of(seen)[2], 2);
  }
  test::Gate gate(cuda(), theirs.get());
  ASSERT_EQ(cuda().memcpy_async(seen.data(), given->dl_tensor.data, 12, theirs.get()), detail::cuda::Status::success);
  given->deleter(given);  // their copy is still to come: the memory must stay until then
  EXPECT_FALSE(detail::cuda::is_idle(detail::cuda::stream_of(gpu(1)), 1));
  gate.open();
  synchronize(gpu(1));
}

TEST_F(DLPackOnGpus, a_stream_that_is_captured_is_refused_and_the_tensor_given_back) {
  const detail::cuda::OwnedStream theirs(1);
  Tensor memory = numbers(5).to(gpu(1));
  Shifted shifted(memory.data());
  cuda().begin_capture(theirs.get());
  expect_error(Code::failed_precondition, {"is being captured"},
               [&] { static_cast<void>(from_dlpack(&shifted.managed, theirs.get())); });
  EXPECT_EQ(shifted.deletions, 1);
  EXPECT_TRUE(cuda().end_capture(theirs.get()));
}

TEST_F(DLPackOnGpus, memory_outside_of_gpus_is_found_when_it_is_used) {
  std::vector<float> elements(5);
  Shifted shifted(elements.data());
  Tensor tensor = from_dlpack(&shifted.managed);
  expect_error(Code::invalid_argument, {"copy: the source is a view on gpu:1", "not registered with CUDA"},
               [&] { static_cast<void>(tensor.to(Device{})); });
  tensor = Tensor();
  synchronize(gpu(1));  // `shifted` must exist until it has been released
}

}  // namespace
}  // namespace lockstep
