// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors on a GPU: copies to it and back, in the order of the streams.

#include "gpu/on_gpu.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace lockstep::test {
namespace {

Bytes some_bytes(std::size_t count, std::uint64_t seed) {
  return awkward_values(DType::u8, static_cast<std::int64_t>(count), seed);
}

class GpuTensors : public GpuTest {};

TEST_F(GpuTensors, survive_a_round_trip_at_any_length_and_address) {
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{3}, std::size_t{64}, std::size_t{4097}, std::size_t{3'000'001}}) {
    for (const std::size_t distance : {std::size_t{0}, std::size_t{1}, std::size_t{12}}) {
      const Bytes bytes = some_bytes(count, count);
      const PlacedBytes there(bytes, logical_gpu(0), distance);
      ASSERT_EQ(there.bytes(), bytes) << count << " bytes at " << distance;
      ASSERT_TRUE(there.room_is_untouched());
    }
  }
}

TEST_F(GpuTensors, are_copied_from_and_to_pinned_memory) {
  const Bytes bytes = some_bytes(100'003, 7);
  const auto pinned = pinned_memory_resource();
  Tensor source = Tensor::uninitialized(DType::u8, Shape{100'003}, pinned);
  Tensor target = Tensor::uninitialized(DType::u8, Shape{100'003}, pinned);
  std::memcpy(source.data(), bytes.data(), bytes.size());
  PlacedBytes there(Bytes(bytes.size()), logical_gpu(0));
  copy(there.view(DType::u8), source.view());
  std::memset(source.data(), 0, bytes.size());  // the source may be overwritten on return
  copy(target.view(), there.view(DType::u8));
  EXPECT_EQ(std::memcmp(target.data(), bytes.data(), bytes.size()), 0);
}

TEST_F(GpuTensors, are_zero_when_they_are_new) {
  for (int round = 0; round < 3; ++round) {
    const Tensor there(DType::f32, Shape{70'001}, gpu_memory_resource(logical_gpu(0)), logical_gpu(0));
    Tensor here(DType::f32, there.shape());
    copy(here.view(), there.view());
    for (const float value : here.elements<float>()) ASSERT_EQ(value, 0.0F);
    PlacedBytes(some_bytes(280'004, 3), logical_gpu(0));  // leaves data in the memory that is allocated next
  }
}

TEST_F(GpuTensors, are_cloned_on_their_device) {
  const Bytes bytes = some_bytes(4096, 5);
  Tensor there(DType::u8, Shape{4096}, gpu_memory_resource(logical_gpu(1)), logical_gpu(1));
  there.copy_from(bytes_view(bytes));
  const Tensor twin = there.clone();
  EXPECT_EQ(twin.device(), logical_gpu(1));
  EXPECT_NE(twin.data(), there.data());
  there.copy_from(bytes_view(Bytes(4096)));
  Bytes back(4096);
  copy({back.data(), DType::u8, Shape{4096}, {}}, twin.view());
  EXPECT_EQ(back, bytes);
}

TEST_F(GpuTensors, are_copied_in_the_order_of_the_calls_on_one_stream_and_across) {
  constexpr std::size_t count = 1 << 20;
  PlacedBytes first(Bytes(count), logical_gpu(0));
  PlacedBytes second(Bytes(count), logical_gpu(1));
  PlacedBytes third(Bytes(count), logical_gpu(2));
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const Bytes bytes = some_bytes(count, round);
    first.write(bytes);
    copy(second.view(DType::u8), first.view(DType::u8));
    copy(third.view(DType::u8), second.view(DType::u8));
    first.write(Bytes(count));  // too late to be seen by the copy
    ASSERT_EQ(third.bytes(), bytes) << "round " << round;
  }
}

TEST_F(GpuTensors, reuse_freed_memory_only_after_its_last_use) {
  constexpr std::size_t count = 1 << 20;
  PlacedBytes kept(Bytes(count), logical_gpu(0));
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const Bytes bytes = some_bytes(count, round);
    {
      PlacedBytes given_back(bytes, logical_gpu(0));
      copy(kept.view(DType::u8), given_back.view(DType::u8));
    }
    const PlacedBytes other(Bytes(count), logical_gpu(0));
    ASSERT_EQ(kept.bytes(), bytes) << "round " << round;
  }
}

}  // namespace
}  // namespace lockstep::test
