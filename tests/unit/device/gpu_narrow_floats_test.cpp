// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// f16 and bf16 in the bodies of the kernels, exhaustively: all 2^16 values are widened, added, and rounded to.

#include "kernels/scalar_reduce.hpp"
#include "support/quick.hpp"
#include "support/run_on_host.hpp"

#include <lockstep/core/float16.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

template <class T>
std::vector<T> every_value(std::uint32_t first = 0) {
  std::vector<T> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    values.push_back(T::from_bits(static_cast<std::uint16_t>(first + bits)));
  }
  return values;
}

/// Evaluates `fold` by the body of the kernels, and by the kernel of the host.
template <class Result>
void fold_both(Fold fold, std::int64_t count, std::vector<Result>& got, std::vector<Result>& expected) {
  got.resize(static_cast<std::size_t>(count));
  expected.resize(static_cast<std::size_t>(count));
  void* output = got.data();
  fold.outputs = std::span(&output, 1);
  fold_on_host(fold, count);
  output = expected.data();
  reduce(fold, count);
}

template <class T>
class GpuNarrowFloats : public testing::Test {};
using GpuFormats = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(GpuNarrowFloats, GpuFormats);

TYPED_TEST(GpuNarrowFloats, widen_exactly_but_for_which_nan_it_is) {
  const auto values = every_value<TypeParam>();
  const FoldInput input{values.data(), false};
  constexpr std::uint8_t merges[]{0};
  std::vector<float> got;
  std::vector<float> expected;
  fold_both(
      {.dtype = dtype_of<TypeParam>, .inputs = std::span(&input, 1), .merges = merges, .result = FoldResult::partial},
      0x10000, got, expected);
  for (std::size_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_EQ(std::isnan(got[bits]), std::isnan(expected[bits])) << bits;
    if (!std::isnan(got[bits])) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[bits]), std::bit_cast<std::uint32_t>(expected[bits])) << bits;
    }
  }
}

/// For each value of the format: the value, the midpoints to its neighbours, and the f32 values next to all of these.
TYPED_TEST(GpuNarrowFloats, round_to_nearest_even) {
  std::vector<float> values{std::numeric_limits<float>::max(), 65519.996F, 65520.0F, 3.3961775e38F};
  for (std::uint32_t low = 0; low < 0x8000; ++low) {
    const float value = float(TypeParam::from_bits(static_cast<std::uint16_t>(low)));
    const float next = float(TypeParam::from_bits(static_cast<std::uint16_t>(low + 1)));
    for (const float center : {value, value / 2 + next / 2}) {
      const auto bits = std::bit_cast<std::uint32_t>(center);
      for (const std::uint32_t around : {bits - 1, bits, bits + 1}) {
        values.push_back(std::bit_cast<float>(around));
        values.push_back(-std::bit_cast<float>(around));
      }
    }
  }
  const FoldInput input{values.data(), true};
  constexpr std::uint8_t merges[]{0};
  std::vector<std::uint16_t> got;
  std::vector<std::uint16_t> expected;
  fold_both({.dtype = dtype_of<TypeParam>, .inputs = std::span(&input, 1), .merges = merges},
            static_cast<std::int64_t>(values.size()), got, expected);
  ASSERT_EQ(got, expected);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(got[i], TypeParam(values[i]).bits()) << values[i];
}

/// Combines every value with others that cause ties, overflows, subnormals and NaN, by every op.
TYPED_TEST(GpuNarrowFloats, are_combined_as_on_the_host) {
  const auto values = every_value<TypeParam>();
  constexpr std::uint8_t merges[]{0, 1};
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<std::vector<TypeParam>> others;
  for (const float special : {0.0F, -0.0F, 1.0F, -1.0F, infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                              6e-8F, 6.1e-5F, 65504.0F, 3.3e38F, 1e-40F}) {
    others.emplace_back(0x10000, TypeParam(special));
  }
  for (std::uint32_t step = 0; step < 0x10000; step += 0x10000 / (test::is_quick() ? 5 : 23))
    others.push_back(every_value<TypeParam>(step));
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::prod}) {
    for (const std::vector<TypeParam>& other : others) {
      const FoldInput inputs[]{{values.data(), false}, {other.data(), false}};
      std::vector<std::uint16_t> got;
      std::vector<std::uint16_t> expected;
      fold_both({.op = op, .dtype = dtype_of<TypeParam>, .inputs = inputs, .merges = merges, .replicas = 2}, 0x10000,
                got, expected);
      ASSERT_EQ(got, expected) << to_string(op) << ' ' << float(other.front());
    }
  }
}

}  // namespace
}  // namespace lockstep::detail::cuda
