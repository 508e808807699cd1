// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "support/errors.hpp"

#include <lockstep/values/indexed_slices.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::test {
namespace {

IndexedSlices slices_of(const std::vector<std::int64_t>& indices, const Tensor& values, std::int64_t rows) {
  return {.values = values, .indices = Tensor::from(indices), .rows = rows};
}

TEST(IndexedSlices, is_converted_to_dense_and_adds_repeated_rows) {
  const std::vector<float> rows{1, 2, 3, 4, 10, 20};
  const Tensor dense = to_dense(slices_of({2, 0, 2}, Tensor::from(std::span<const float>(rows), Shape{3, 2}), 4));
  EXPECT_EQ(dense.shape(), (Shape{4, 2}));
  const std::vector<float> expected{3, 4, 0, 0, 11, 22, 0, 0};
  EXPECT_TRUE(std::ranges::equal(dense.elements<float>(), expected));
}

TEST(IndexedSlices, adds_narrow_floats_in_f32_and_wraps_integers) {
  const std::vector<BFloat16> narrow{BFloat16(256), BFloat16(1), BFloat16(1), BFloat16(1), BFloat16(1)};
  EXPECT_EQ(static_cast<float>(to_dense(slices_of({0, 0, 0, 0, 0}, Tensor::from(narrow), 1)).elements<BFloat16>()[0]),
            260.0F);
  const std::vector<std::int8_t> integers{100, 100};
  EXPECT_EQ(to_dense(slices_of({0, 0}, Tensor::from(integers), 1)).elements<std::int8_t>()[0], -56);
}

TEST(IndexedSlices, may_be_empty) {
  const Tensor dense = to_dense(slices_of({}, Tensor(DType::f64, Shape{0, 3}), 2));
  EXPECT_EQ(dense.shape(), (Shape{2, 3}));
}

TEST(IndexedSlices, refuses_inconsistent_members) {
  const Tensor two = Tensor::from(std::vector<float>{1, 2});
  expect_all(error_of([&] { static_cast<void>(to_dense(slices_of({0, 4}, two, 4))); }),
             {"invalid_argument:", "index 4", "4 rows"});
  expect_all(error_of([&] { static_cast<void>(to_dense(slices_of({-1, 0}, two, 4))); }), {"index -1"});
  expect_all(error_of([&] { static_cast<void>(to_dense(slices_of({0}, two, 4))); }), {"1 indices", "shape [2]"});
  const IndexedSlices narrow{.values = two, .indices = Tensor::from(std::vector<std::int32_t>{0, 1}), .rows = 4};
  expect_all(error_of([&] { static_cast<void>(to_dense(narrow)); }), {"i32[2]", "must be i64"});
}

}  // namespace
}  // namespace lockstep::test
