// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors from lists in braces, and tensors as numbers.

#include <lockstep/device/nested_list.hpp>
#include <lockstep/device/tensor.hpp>

#include "support/elements_of.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace lockstep {
namespace {

using test::elements_of;
using test::expect_error;

TEST(Tensor, is_made_from_a_list_in_braces) {
  const Tensor row = Tensor::from({1.0F, 2.0F});
  EXPECT_EQ(row.shape(), Shape{2});
  EXPECT_EQ(elements_of<float>(row), (std::vector<float>{1, 2}));
  const Tensor matrix = Tensor::from({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(matrix.dtype(), DType::i32);
  EXPECT_EQ(matrix.shape(), (Shape{2, 3}));
  EXPECT_EQ(elements_of<std::int32_t>(matrix), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
  const Tensor column = Tensor::from({{1.0}, {2.0}});
  EXPECT_EQ(column.shape(), (Shape{2, 1}));
  EXPECT_EQ(Tensor::from<float>({{1}, {2}}).shape(), (Shape{2, 1}));
  EXPECT_EQ(Tensor::from({{{1, 2}}, {{3, 4}}, {{5, 6}}}).shape(), (Shape{3, 1, 2}));
  const Tensor flags = Tensor::from({true, false});
  EXPECT_EQ(flags.dtype(), DType::boolean);
  EXPECT_FALSE(flags.elements<bool>()[1]);
}

TEST(Tensor, is_not_made_from_lists_of_different_lengths) {
  expect_error(Code::invalid_argument, {"part 1 has shape [1]", "part 0 has shape [2]"},
               [] { (void)Tensor::from({{1, 2}, {3}}); });
  expect_error(Code::invalid_argument, {"part 1 has shape [2, 2]", "part 0 has shape [1, 2]"},
               [] { (void)Tensor::from({{{1, 2}}, {{3, 4}, {5, 6}}}); });
}

template <class T>
Tensor tensor_of(const NestedList<T>& list) {
  return list.tensor();
}

TEST(NestedList, has_one_axis_for_each_depth_of_braces_and_converts_its_numbers) {
  EXPECT_EQ(tensor_of<float>({1, 2}).shape(), Shape{2});
  EXPECT_EQ(tensor_of<float>({{1}, {2}}).shape(), (Shape{2, 1}));
  EXPECT_EQ(tensor_of<float>({{1, 2}}).shape(), (Shape{1, 2}));
  EXPECT_EQ(tensor_of<float>({{{{1}}}}).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_EQ(tensor_of<std::int64_t>({}).shape(), Shape{0});
  EXPECT_EQ(tensor_of<std::int64_t>({}).dtype(), DType::i64);
  const int two = 2;
  EXPECT_EQ(elements_of<float>(tensor_of<float>({{1, two}, {2.5, 4U}})), (std::vector<float>{1, 2, 2.5, 4}));
  EXPECT_EQ(elements_of<BFloat16>(tensor_of<BFloat16>({1, BFloat16(0.5F)})),
            (std::vector<BFloat16>{BFloat16(1.0F), BFloat16(0.5F)}));
  expect_error(Code::invalid_argument, {"part 1 has shape [1]", "part 0 has shape []"},
               [] { (void)tensor_of<float>({1, {2}}); });
}

TEST(Tensor, with_one_element_converts_to_a_number) {
  EXPECT_EQ(float(Tensor::scalar(1.5F)), 1.5F);
  EXPECT_EQ(double(Tensor::from({{0.25F}})), 0.25);
  EXPECT_EQ(float(Tensor::scalar(7)), 7.0F);
  EXPECT_EQ(float(Tensor::scalar(0.1)), 0.1F);
  EXPECT_EQ(float(Tensor::scalar(BFloat16(3.0F))), 3.0F);
  EXPECT_EQ(Float16(Tensor::scalar(2)), Float16(2.0F));
  EXPECT_EQ(static_cast<std::int8_t>(Tensor::scalar(std::int64_t{-128})), -128);
  EXPECT_EQ(static_cast<std::uint64_t>(Tensor::scalar(5)), 5U);
  static_assert(!std::convertible_to<Tensor, float>, "the conversion is explicit");
  static_assert(!std::constructible_from<std::vector<float>, Tensor>);
  static_assert(!std::constructible_from<bool, Tensor>, "`if (tensor)` must not compile");
}

TEST(NestedList, refuses_integers_out_of_range) {
  EXPECT_EQ(elements_of<std::uint8_t>(NestedList<std::uint8_t>({0, 255}).tensor()),
            (std::vector<std::uint8_t>{0, 255}));
  for (const int number : {256, -1}) {
    expect_error(Code::invalid_argument, {"list in braces", "out of the range of u8"},
                 [number] { (void)NestedList<std::uint8_t>({0, number}); });
  }
  expect_error(Code::invalid_argument, {"out of the range of bool"}, [] { (void)NestedList<bool>({1, 2}); });
}

TEST(Tensor, does_not_convert_to_a_number_that_is_not_its_element) {
  expect_error(Code::invalid_argument, {"shape [2]", "f32", "exactly one"},
               [] { (void)float(Tensor::from({1.F, 2.F})); });
  expect_error(Code::invalid_argument, {"shape [0]", "exactly one"}, [] { (void)float(Tensor()); });
  expect_error(Code::invalid_argument, {"of f32", "type i32", "not converted to an integer"},
               [] { (void)int(Tensor::scalar(1.0F)); });
  expect_error(Code::invalid_argument, {"of i32", "type u8", "does not have the value"},
               [] { (void)static_cast<std::uint8_t>(Tensor::scalar(256)); });
  expect_error(Code::invalid_argument, {"of bool", "type f32"}, [] { (void)float(Tensor::scalar(true)); });
}

}  // namespace
}  // namespace lockstep
