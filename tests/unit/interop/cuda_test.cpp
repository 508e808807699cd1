// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "unit/device/gpu_fixture.hpp"

#include <lockstep/interop/cuda.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep {
namespace {

using test::Gate;
using test::gpu;

class NativeStream : public test::GpuTest {};

TEST_F(NativeStream, is_the_devices) {
  const cudaStream_t stream = native_stream(gpu(0, 1));
  EXPECT_EQ(stream, stream_handle(gpu(0, 1)));
  EXPECT_NE(stream, native_stream(gpu(0)));
}

TEST_F(NativeStream, is_put_in_order_with_others_both_ways) {
  const cudaStream_t other = native_stream(gpu(0, 1));
  Tensor tensor(DType::u8, Shape{1}, nullptr, gpu(0));
  Gate gate(cuda(), stream_handle(gpu(0)));
  wait_for(other, gpu(0));
  ASSERT_EQ(cuda().memset_async(tensor.data(), 3, 1, other), detail::cuda::Status::success);
  wait_for(gpu(0), other);
  gate.open();
  EXPECT_EQ(tensor.to(Device{}).elements<std::uint8_t>()[0], 3);
}

}  // namespace
}  // namespace lockstep
