// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/device/tensor.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace lockstep {
namespace {

TEST(Device, parses_tensorflows_spellings) {
  const Device gpu{DeviceKind::gpu, 1};
  for (const char* text :
       {"gpu:1", "GPU:1", "/gpu:1", "/device:GPU:1", "/job:localhost/replica:0/task:0/device:GPU:1"}) {
    EXPECT_EQ(parse_device(text), gpu) << text;
  }
  EXPECT_EQ(parse_device("cpu"), Device{});
  EXPECT_EQ(to_string(gpu), "gpu:1");
}

TEST(Device, names_each_logical_device_on_a_gpu) {
  const Device second{DeviceKind::gpu, 1, 2};
  for (const char* text : {"gpu:1#2", "GPU:1#2", "/device:GPU:1#2"}) EXPECT_EQ(parse_device(text), second) << text;
  EXPECT_EQ(to_string(second), "gpu:1#2");
  EXPECT_EQ(parse_device("gpu:1#0"), (Device{DeviceKind::gpu, 1}));
  EXPECT_EQ(to_string(Device{DeviceKind::gpu, 1, 0}), "gpu:1");
  EXPECT_NE(second, (Device{DeviceKind::gpu, 1}));
  EXPECT_LT((Device{DeviceKind::gpu, 1}), second);
}

TEST(Device, quotes_text_that_cannot_be_parsed) {
  for (const char* text : {"", "tpu:0", "cpu:", "cpu:x", "cpu:-1", "cpu:0:1", "cpu:0#1", "gpu#1", "gpu:0#", "gpu:0#-1",
                           "gpu:0#1#2", "gpu:0#x"}) {
    try {
      (void)parse_device(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_NE(error.text().find('"' + std::string(text) + '"'), std::string::npos) << error.text();
    }
  }
}

TEST(Shape, counts_elements_and_refuses_invalid_extents) {
  EXPECT_EQ(Shape{}.element_count(), 1);
  EXPECT_EQ((Shape{2, 0, 3}).element_count(), 0);
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
  EXPECT_THROW((Shape{-1}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW((Shape{std::numeric_limits<std::int64_t>::max(), 2}), Error);
}

TEST(Tensor, is_aligned_zeroed_and_shared_by_copies) {
  Tensor tensor(DType::f32, Shape{3});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
  Tensor same = tensor;
  Tensor other = tensor.clone();
  tensor.elements<float>()[1] = 5;
  EXPECT_EQ(same.elements<float>()[1], 5);
  EXPECT_EQ(other.elements<float>()[1], 0);
  EXPECT_THROW((void)tensor.elements<double>(), Error);
  EXPECT_THROW((void)tensor.reshaped(Shape{2}), Error);
}

}  // namespace
}  // namespace lockstep
