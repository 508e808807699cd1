// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/device/arithmetic.hpp>

#include "support/elements_of.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using test::elements_of;
using test::expect_error;
using Floats = std::vector<float>;

template <class A, class B>
concept Addable = requires(const A& a, const B& b) { a + b; };
template <class A, class B>
concept AddableInPlace = requires(A& a, const B& b) { a += b; };

TEST(TensorArithmetic, combines_tensors_of_one_shape_and_dtype) {
  const Tensor x = Tensor::from({{1.0F, 2.0F}, {3.0F, 4.0F}});
  const Tensor y = Tensor::from({{2.0F, 4.0F}, {-3.0F, 0.5F}});
  EXPECT_EQ(elements_of<float>(x + y), (Floats{3, 6, 0, 4.5}));
  EXPECT_EQ(elements_of<float>(x - y), (Floats{-1, -2, 6, 3.5}));
  EXPECT_EQ(elements_of<float>(x * y), (Floats{2, 8, -9, 2}));
  EXPECT_EQ(elements_of<float>(x / y), (Floats{0.5, 0.5, -1, 8}));
  EXPECT_EQ((x + y).shape(), (Shape{2, 2}));
  EXPECT_EQ(elements_of<float>(x), (Floats{1, 2, 3, 4})) << "the operands do not change";
  EXPECT_EQ((Tensor() + Tensor()).shape(), Shape{0});
}

TEST(TensorArithmetic, combines_each_element_with_a_number_on_either_side) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 4.0F});
  EXPECT_EQ(elements_of<float>(x * 2.0F + 1.0F), (Floats{3, 5, 9}));
  EXPECT_EQ(elements_of<float>(2.0F * x), (Floats{2, 4, 8}));
  EXPECT_EQ(elements_of<float>(1.0F - x), (Floats{0, -1, -3}));
  EXPECT_EQ(elements_of<float>(8.0F / x), (Floats{8, 4, 2}));
  EXPECT_EQ(elements_of<float>(1.0F + x), (Floats{2, 3, 5}));
  EXPECT_EQ(elements_of<float>(x - 1.0F), (Floats{0, 1, 3}));
  EXPECT_EQ(elements_of<float>(x / 2.0F), (Floats{0.5, 1, 2}));
}

TEST(TensorArithmetic, converts_a_number_to_the_dtype_of_the_tensor) {
  const Tensor x = Tensor::from({1.0F, 2.0F});
  EXPECT_EQ((x * 2).dtype(), DType::f32);
  EXPECT_EQ(elements_of<float>(x * 2), (Floats{2, 4}));
  EXPECT_EQ(elements_of<float>(x * 0.1), (Floats{0.1F, 2 * 0.1F}));
  const Tensor bytes = Tensor::from(std::vector<std::uint8_t>{1, 200});
  EXPECT_EQ(elements_of<std::uint8_t>(bytes + 100), (std::vector<std::uint8_t>{101, 44}));
  EXPECT_EQ(float(elements_of<BFloat16>(Tensor::scalar(BFloat16(256.0F)) + 1.5).front()), 258.0F) << "rounded once";
  expect_error(Code::invalid_argument, {"u8", "number that u8 cannot store"}, [&] { (void)(bytes + 256); });
  expect_error(Code::invalid_argument, {"u8", "cannot store"}, [&] { (void)(bytes + -1); });
  expect_error(Code::invalid_argument, {"of i32", "a number of f64", "truncated"},
               [] { (void)(Tensor::from({1, 2}) * 0.5); });
  static_assert(!Addable<Tensor, bool>);
  static_assert(!Addable<Tensor, const char*>);
}

TEST(TensorArithmetic, of_integers_wraps_and_divides_towards_zero) {
  using Bytes = std::vector<std::int8_t>;
  const Tensor x = Tensor::from(Bytes{-128, 7, -7});
  EXPECT_EQ(elements_of<std::int8_t>(x - 1), (Bytes{127, 6, -8}));
  EXPECT_EQ(elements_of<std::int8_t>(x / 2), (Bytes{-64, 3, -3}));
  EXPECT_EQ(elements_of<std::int8_t>(x / -1), (Bytes{-128, -7, 7}));
  EXPECT_EQ(elements_of<std::int8_t>(x * x), (Bytes{0, 49, 49}));
  EXPECT_EQ(elements_of<std::int8_t>(-x), (Bytes{-128, -7, 7}));
  EXPECT_EQ(elements_of<std::uint8_t>(-Tensor::scalar(std::uint8_t{1})).front(), 255);
  const Tensor least = Tensor::scalar(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(elements_of<std::int64_t>(least / -1).front(), std::numeric_limits<std::int64_t>::min());
  expect_error(Code::invalid_argument, {"divided by zero"}, [&] { (void)(x / 0); });
  expect_error(Code::invalid_argument, {"divided by zero"}, [&] { (void)(x / Tensor::from(Bytes{1, 0, 1})); });
  expect_error(Code::invalid_argument, {"divided by zero"}, [&] { (void)(1 / Tensor::from(Bytes{1, 0, 1})); });
}

TEST(TensorArithmetic, of_floats_follows_ieee_754_with_one_nan) {
  const Tensor x = Tensor::from({0.0F, -0.0F, 1.0F});
  const auto bits = [](const Tensor& tensor) {
    std::vector<std::uint32_t> result;
    for (const float element : tensor.elements<float>()) result.push_back(std::bit_cast<std::uint32_t>(element));
    return result;
  };
  EXPECT_EQ(bits(x / 0), (std::vector<std::uint32_t>{0x7fc00000, 0x7fc00000, 0x7f800000}));
  EXPECT_EQ(bits(-x), (std::vector<std::uint32_t>{0x80000000, 0, 0xbf800000}));
  const Tensor nan = Tensor::scalar(std::bit_cast<float>(0xffc12345U));
  EXPECT_EQ(bits(nan + 1), std::vector<std::uint32_t>{0x7fc00000});
  EXPECT_EQ(bits(-nan), std::vector<std::uint32_t>{0x7fc00000});
}

TEST(TensorArithmetic, refuses_operands_that_differ) {
  const Tensor x = Tensor::from({1.0F, 2.0F});
  expect_error(Code::invalid_argument, {"of *", "[2]", "[3]", "float(t)"},
               [&] { (void)(x * Tensor::from({1.F, 2.F, 3.F})); });
  expect_error(Code::invalid_argument, {"of +", "[2]", "[]"}, [&] { (void)(x + Tensor::scalar(1.0F)); });
  expect_error(Code::invalid_argument, {"of -", "f32", "f64"}, [&] { (void)(x - Tensor::from({1.0, 2.0})); });
  const Tensor flag = Tensor::scalar(true);
  expect_error(Code::invalid_argument, {"bool"}, [&] { (void)(flag + flag); });
  expect_error(Code::invalid_argument, {"bool"}, [&] { (void)(flag * 2); });
  expect_error(Code::invalid_argument, {"bool"}, [&] { (void)-flag; });
}

TEST(TensorArithmetic, in_place_replaces_the_tensor_and_not_its_elements) {
  Tensor x = Tensor::from({1.0F, 2.0F});
  const Tensor shared = x;
  x += x;
  x -= 1;
  x *= Tensor::from({2.0F, 2.0F});
  (x /= 4.0) += 1;
  EXPECT_EQ(elements_of<float>(x), (Floats{1.5, 2.5}));
  EXPECT_EQ(elements_of<float>(shared), (Floats{1, 2}));
  static_assert(!AddableInPlace<Tensor, std::string>);
  static_assert(!AddableInPlace<float, Tensor>);
}

}  // namespace
}  // namespace lockstep
