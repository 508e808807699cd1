// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/elementwise.hpp"

#include "core/visit_dtype.hpp"
#include "support/canonical_sum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace lockstep::detail {
namespace {

using test::Bytes;

constexpr ElementOp arithmetic[]{ElementOp::add, ElementOp::sub, ElementOp::mul, ElementOp::div};

__extension__ using Exact = __int128;
__extension__ using Bits = unsigned __int128;

/// The exact result, or the result in the next wider arithmetic, of one operation.
template <class Wide>
Wide result_of(ElementOp op, Wide a, Wide b) {
  switch (op) {
    case ElementOp::add: return a + b;
    case ElementOp::sub: return a - b;
    case ElementOp::mul: return a * b;
    default: return a / b;
  }
}

template <class T>
T expected_of(ElementOp op, T a, T b) {
  if constexpr (std::integral<T>) {
    // the product of two u64 has more bits than an Exact; the result has the last ones
    if (op == ElementOp::mul) return static_cast<T>(static_cast<Bits>(a) * static_cast<Bits>(b));
    return static_cast<T>(result_of<Exact>(op, a, b));
  } else if constexpr (std::is_floating_point_v<T>) {
    const T result = result_of<T>(op, a, b);
    return std::isnan(result) ? std::abs(std::numeric_limits<T>::quiet_NaN()) : result;
  } else {
    return T(result_of<float>(op, float(a), float(b)));
  }
}

template <class T>
std::vector<T> values(std::int64_t count, std::uint64_t seed, bool without_zeros) {
  Bytes bytes = test::awkward_values(dtype_of<T>, count, seed);
  for (std::byte& byte : bytes) {
    if (without_zeros && std::integral<T>) byte |= std::byte{1};
  }
  std::vector<T> elements(static_cast<std::size_t>(count));
  if (count > 0) std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

template <class T>
Operand number(T value) {
  Operand operand;
  std::memcpy(operand.number.data(), &value, sizeof(T));
  return operand;
}

template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& expected, ElementOp op) {
  ASSERT_EQ(got.size(), expected.size());
  if (got.empty()) return;  // memcmp takes no null pointer
  ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)), 0)
      << to_string(dtype_of<T>) << ", op " << static_cast<int>(op) << ", " << got.size() << " elements";
}

template <class T>
void check(ElementOp op, std::int64_t count) {
  const std::vector<T> left = values<T>(count, 1, false);
  const std::vector<T> right = values<T>(count, 2, op == ElementOp::div);
  const T left_number = values<T>(1, 3, false).front();
  const T right_number = values<T>(1, 4, true).front();
  std::vector<T> expected_of_both;
  std::vector<T> expected_of_left;
  std::vector<T> expected_of_right;
  for (std::size_t i = 0; i < left.size(); ++i) {
    expected_of_both.push_back(expected_of(op, left[i], right[i]));
    expected_of_left.push_back(expected_of(op, left[i], right_number));
    expected_of_right.push_back(expected_of(op, left_number, right[i]));
  }
  std::vector<T> target(left.size());
  const auto compute = [&](const Operand& a, const Operand& b) {
    compute_elementwise(
        {.op = op, .dtype = dtype_of<T>, .target = target.data(), .left = a, .right = b, .count = count});
  };
  compute({left.data()}, {right.data()});
  expect_same_bits(target, expected_of_both, op);
  compute({left.data()}, number(right_number));
  expect_same_bits(target, expected_of_left, op);
  compute(number(left_number), {right.data()});
  expect_same_bits(target, expected_of_right, op);
  target = left;
  compute({target.data()}, {right.data()});
  expect_same_bits(target, expected_of_both, op);
  target = right;
  compute({left.data()}, {target.data()});
  expect_same_bits(target, expected_of_both, op);
}

TEST(Elementwise, gives_the_bits_of_one_rounding_for_every_op_dtype_and_length) {
  for (int d = 0; d < dtype_count; ++d) {
    visit_dtype(static_cast<DType>(d), [&]<class T>() {
      if constexpr (!std::same_as<T, bool>) {
        for (const ElementOp op : arithmetic) {
          for (const std::int64_t count : {0, 1, 7, 255, 256, 257, 1500}) check<T>(op, count);
        }
      }
    });
  }
}

TEST(Elementwise, wraps_where_the_lowest_integer_is_divided_by_minus_one) {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  const std::int64_t left[]{lowest, lowest, 7};
  const std::int64_t right[]{-1, 2, -2};
  std::int64_t target[3];
  compute_elementwise(
      {.op = ElementOp::div, .dtype = DType::i64, .target = target, .left = {left}, .right = {right}, .count = 3});
  EXPECT_EQ(std::vector(std::begin(target), std::end(target)), (std::vector<std::int64_t>{lowest, lowest / 2, -3}));
}

}  // namespace
}  // namespace lockstep::detail
