// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/reduce.hpp"

#include "schedule/canonical_tree.hpp"
#include "support/canonical_sum.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace lockstep::detail {
namespace {

using test::Bytes;

std::vector<FoldInput> leaves_of(const std::vector<Bytes>& leaves) {
  std::vector<FoldInput> inputs;
  for (const Bytes& leaf : leaves) inputs.push_back({leaf.data(), false});
  return inputs;
}

TEST(Reduce, equals_the_oracle_for_every_dtype_op_and_number_of_replicas) {
  constexpr std::int64_t count = 700;  // several blocks and a remainder
  for (int d = 0; d < dtype_count; ++d) {
    for (int o = 0; o < reduce_op_count; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      if (!supports(op, dtype)) continue;
      for (int replicas = 1; replicas <= 17; ++replicas) {
        std::vector<Bytes> leaves;
        for (int r = 0; r < replicas; ++r)
          leaves.push_back(test::awkward_values(dtype, count, static_cast<std::uint64_t>(r) + 1));
        Bytes a(static_cast<std::size_t>(count) * size_of(result_dtype(op, dtype)));
        Bytes b = a;
        void* const outputs[]{a.data(), b.data()};
        reduce({.op = op,
                .dtype = dtype,
                .inputs = leaves_of(leaves),
                .merges = fold_merges_of_leaves({0, replicas}),
                .outputs = outputs,
                .result = FoldResult::finished,
                .replicas = replicas},
               count);
        const Bytes expected = test::canonical_reduce(op, dtype, leaves);
        ASSERT_EQ(a, expected) << to_string(op) << ' ' << to_string(dtype) << ' ' << replicas;
        ASSERT_EQ(b, expected);
      }
    }
  }
}

template <class T>
T reduced(ReduceOp op, std::initializer_list<T> values) {
  std::vector<FoldInput> inputs;
  for (const T& value : values) inputs.push_back({&value, false});
  T result{};
  void* const output = &result;
  const int replicas = static_cast<int>(inputs.size());
  reduce({.op = op,
          .dtype = dtype_of<T>,
          .inputs = inputs,
          .merges = fold_merges_of_leaves({0, replicas}),
          .outputs = std::span(&output, 1),
          .replicas = replicas},
         1);
  return result;
}

TEST(Reduce, keeps_the_sign_of_a_zero_that_passes_through) {
  EXPECT_TRUE(std::signbit(reduced<float>(ReduceOp::sum, {-0.0f, -0.0f, -0.0f})));
  EXPECT_FALSE(std::signbit(reduced<float>(ReduceOp::sum, {-0.0f, 0.0f})));
}

TEST(Reduce, orders_zeros_and_spreads_nan_in_min_and_max) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [a, b] : {std::pair{-0.0f, 0.0f}, std::pair{0.0f, -0.0f}}) {
    EXPECT_TRUE(std::signbit(reduced<float>(ReduceOp::min, {a, b})));
    EXPECT_FALSE(std::signbit(reduced<float>(ReduceOp::max, {a, b})));
  }
  const float odd_nan = std::bit_cast<float>(0xffc12345u);
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::sum}) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(reduced<float>(op, {odd_nan, 1.0f})), 0x7fc00000u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(reduced<float>(op, {1.0f, nan, 2.0f})), 0x7fc00000u);
  }
}

TEST(Reduce, accumulates_16_bit_floats_in_32_and_rounds_once) {
  EXPECT_EQ(float(reduced<BFloat16>(ReduceOp::sum, {BFloat16(256), BFloat16(1), BFloat16(1), BFloat16(2)})), 260.0f);
  EXPECT_EQ(float(reduced<Float16>(ReduceOp::mean, {Float16(60000), Float16(60000)})), float(Float16(60000)));
}

TEST(Reduce, wraps_integers) {
  EXPECT_EQ(reduced<std::int8_t>(ReduceOp::sum, {100, 100}), -56);
  EXPECT_EQ(reduced<std::uint16_t>(ReduceOp::prod, {65535, 65535}), 1);
  EXPECT_EQ(reduced<std::int64_t>(ReduceOp::sum, {std::numeric_limits<std::int64_t>::max(), 1}),
            std::numeric_limits<std::int64_t>::min());
}

}  // namespace
}  // namespace lockstep::detail
