// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on tensors on GPUs, and numbers that are read from there.

#include "support/expect_error.hpp"
#include "unit/device/gpu_fixture.hpp"

#include <lockstep/device/arithmetic.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

using test::elements_of;
using test::expect_error;
using test::gpu;
using test::numbers;
using Floats = std::vector<float>;

class GpuArithmetic : public test::GpuTest {};

TEST_F(GpuArithmetic, computes_on_the_gpu_of_the_operands) {
  const Tensor x = numbers(5, 1).to(gpu(1));
  const Tensor y = numbers(5, 2).to(gpu(1));
  const auto launches = cuda().calls().count("compute_elementwise");
  const Tensor result = (2.0F * x - y) / 4 + x * y;
  EXPECT_EQ(cuda().calls().count("compute_elementwise") - launches, 5);
  EXPECT_EQ(result.device(), gpu(1));
  EXPECT_EQ(elements_of(result),
            elements_of((2.0F * numbers(5, 1) - numbers(5, 2)) / 4 + numbers(5, 1) * numbers(5, 2)));
  EXPECT_EQ(elements_of(-x), (Floats{-1, -2, -3, -4, -5}));
  EXPECT_EQ((numbers(0).to(gpu(0)) * 2).device(), gpu(0));
}

TEST_F(GpuArithmetic, checks_integer_divisors_on_the_gpu) {
  const Tensor x = Tensor::from({6, 7}).to(gpu(0));
  const Tensor quotient = (x / Tensor::from({2, -2}).to(gpu(0))).to(Device{});
  EXPECT_EQ(quotient.elements<std::int32_t>()[1], -3);
  expect_error(Code::invalid_argument, {"divided by zero"}, [&] { (void)(x / Tensor::from({1, 0}).to(gpu(0))); });
}

TEST_F(GpuArithmetic, refuses_tensors_on_different_devices) {
  const Tensor x = numbers(2);
  expect_error(Code::invalid_argument, {"gpu:0", "gpu:1", "to()"}, [&] { (void)(x.to(gpu(0)) + x.to(gpu(1))); });
  expect_error(Code::invalid_argument, {"cpu:0", "gpu:1", "to()"}, [&] { (void)(x + x.to(gpu(1))); });
}

TEST_F(GpuArithmetic, gives_the_number_of_a_tensor_with_one_element) {
  EXPECT_EQ(float(Tensor::scalar(3).to(gpu(1)) * 2), 6.0F);
}

}  // namespace
}  // namespace lockstep
