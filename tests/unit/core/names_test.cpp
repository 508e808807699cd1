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

TEST(Device, of_this_task_can_be_named_by_its_task) {
  const Device cpu{DeviceKind::cpu, 1};
  for (const char* text : {"/job:worker/replica:0/task:2/device:CPU:1", "/task:2/cpu:1", "/job:worker/cpu:1",
                           "/job:localhost/replica:0/task:0/device:CPU:1", "/replica:0/device:CPU:1"}) {
    EXPECT_EQ(parse_device(text, {.index = 2, .job = "worker"}), cpu) << text;
  }
  EXPECT_EQ(parse_device("/job:any/task:2/cpu:1", {.index = 2}), cpu);
}

TEST(Device, of_another_task_or_replica_is_refused) {
  const auto text_of = [](const char* name, const DeviceTask& here) {
    try {
      (void)parse_device(name, here);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      return error.text();
    }
    return std::string();
  };
  const DeviceTask second{.index = 1, .job = "worker"};
  for (const char* name : {"/job:worker/task:0/device:CPU:0", "/job:chief/task:1/cpu:0", "/task:2/cpu:0",
                           "/job:localhost/task:1/cpu:0", "/job:chief/cpu:0"}) {
    const std::string text = text_of(name, second);
    EXPECT_NE(text.find('"' + std::string(name) + "\" names a device of another task"), std::string::npos) << text;
    EXPECT_NE(text.find("this rank is task 1 of job worker;"), std::string::npos) << text;
  }
  EXPECT_NE(text_of("/job:worker/task:1/device:CPU:0", {}).find("this rank is task 0;"), std::string::npos);
  EXPECT_NE(text_of("/job:worker/replica:3/task:1/cpu:0", second).find("replica 3"), std::string::npos);
}

TEST(Device, quotes_text_that_cannot_be_parsed) {
  for (const char* text : {"/worker:0/cpu:0",
                           "//cpu:0",
                           "/task:/cpu:0",
                           "/task:x/cpu:0",
                           "/task:0/task:0/cpu:0",
                           "/job:/cpu:0",
                           "/cpu:0/",
                           "/device:CPU:0/task:0",
                           "",
                           "tpu:0",
                           "cpu:",
                           "cpu:x",
                           "cpu:-1",
                           "cpu:0:1",
                           "cpu:0#1",
                           "gpu#1",
                           "gpu:0#",
                           "gpu:0#-1",
                           "gpu:0#1#2",
                           "gpu:0#x"}) {
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
