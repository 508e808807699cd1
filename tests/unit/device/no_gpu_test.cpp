// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/backend.hpp"
#include "support/expect_error.hpp"

#include <lockstep/device/gpu.hpp>
#include <lockstep/device/tensor.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using test::expect_error;

const Device gpu{DeviceKind::gpu, 0};

/// A build without CUDA, independent of how this program was built.
class NoGpu : public testing::Test {
  detail::cuda::InstalledTables without_{{}};
};

TEST_F(NoGpu, is_counted_and_explained) {
  EXPECT_EQ(gpu_count(), 0);
  EXPECT_EQ(gpu_status(), "no GPU: built without CUDA");
}

TEST_F(NoGpu, is_named_by_errors_when_one_is_requested) {
  const std::vector<std::string> words{"gpu:0", "not available", "built without CUDA"};
  expect_error(Code::unavailable, words, [] { Tensor(DType::f32, Shape{2}, nullptr, gpu); });
  expect_error(Code::unavailable, words, [] { static_cast<void>(Tensor(DType::f32, Shape{2}).to(gpu)); });
  expect_error(Code::unavailable, words, [] { static_cast<void>(gpu_memory_resource(gpu)); });
  expect_error(Code::unavailable, words, [] { static_cast<void>(stream_handle(gpu)); });
  expect_error(Code::unavailable, words, [] { synchronize(gpu); });
  expect_error(Code::unavailable, words, [] {
    float element = 0;
    copy({&element, DType::f32, Shape{}, {}}, {&element, DType::f32, Shape{}, gpu});
  });
}

TEST_F(NoGpu, takes_pinned_memory_from_the_heap) {
  Tensor tensor(DType::i32, Shape{1000}, pinned_memory_resource());
  EXPECT_EQ(tensor.elements<std::int32_t>()[999], 0);
}

TEST(HostTensor, is_copied_between_hosts_and_checked) {
  const Tensor source = Tensor::from(std::vector<float>{1, 2, 3, 4});
  Tensor target(DType::f32, Shape{2, 2});
  copy(target.view(), source.view());
  EXPECT_EQ(target.elements<float>()[3], 4);
  expect_error(Code::invalid_argument, {"copy", "f32", "f64"},
               [&] { copy(target.view(), Tensor(DType::f64, Shape{4}).view()); });
  expect_error(Code::invalid_argument, {"copy", "[3]", "3 elements", "[2, 2]", "4"},
               [&] { copy(target.view(), Tensor(DType::f32, Shape{3}).view()); });
  EXPECT_EQ(target.elements<float>()[3], 4);
}

TEST(HostTensor, is_moved_to_its_own_device_without_a_copy) {
  const Tensor tensor = Tensor::from(std::vector<float>{1, 2});
  EXPECT_EQ(tensor.to(Device{}).data(), tensor.data());
  const Device second{DeviceKind::cpu, 1};
  const Tensor there = tensor.to(second);
  EXPECT_NE(there.data(), tensor.data());
  EXPECT_EQ(there.device(), second);
  EXPECT_EQ(there.elements<float>()[1], 2);
}

TEST(HostTensor, shares_the_elements_of_another_owner_until_its_last_copy_is_destroyed) {
  auto elements = std::make_shared<std::vector<float>>(std::vector<float>{1, 2});
  Tensor tensor = Tensor::sharing(view_of(std::span(*elements)), elements);
  Tensor same = tensor.reshaped(Shape{1, 2});
  tensor = Tensor();
  EXPECT_EQ(elements.use_count(), 2);
  same.elements<float>()[1] = 7;
  EXPECT_EQ((*elements)[1], 7);
  same = Tensor();
  EXPECT_EQ(elements.use_count(), 1);
}

}  // namespace
}  // namespace lockstep
