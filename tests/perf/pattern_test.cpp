// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The oracle of lockstep-perf against the oracle of the library's tests: two evaluations that share no code.

#include "bench/perf/pattern.hpp"
#include "support/canonical_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace perf {
namespace {

using lockstep::DType;
using lockstep::ReduceOp;
using lockstep::test::Bytes;

template <class Visit>
void for_types_and_ops(Visit visit) {
  for (int d = 0; d < lockstep::dtype_count; ++d) {
    for (int o = 0; o < lockstep::reduce_op_count; ++o) {
      const auto dtype = static_cast<DType>(d);
      const auto op = static_cast<ReduceOp>(o);
      if (lockstep::supports(op, dtype)) visit(dtype, op);
    }
  }
}

std::vector<Bytes> inputs(DType dtype, ReduceOp op, int ranks, Values values, std::size_t count, std::int64_t call) {
  std::vector<Bytes> leaves;
  for (int rank = 0; rank < ranks; ++rank) {
    leaves.emplace_back(count * lockstep::size_of(dtype));
    Pattern::input(dtype, op, rank, values).write(leaves.back(), call);
  }
  return leaves;
}

TEST(Pattern, expects_the_canonical_reduction_of_its_inputs) {
  constexpr std::size_t count = 2 * Pattern::period + 5;
  for_types_and_ops([&](DType dtype, ReduceOp op) {
    for (const int ranks : {1, 2, 3, 5, 8, 13}) {
      for (const Values values : {Values::mixed, Values::order_free}) {
        const Bytes result = lockstep::test::canonical_reduce(op, dtype, inputs(dtype, op, ranks, values, count, 7));
        EXPECT_EQ(Pattern::result(dtype, op, ranks, values).count_wrong(result, 7), 0)
            << lockstep::to_string(dtype) << ' ' << lockstep::to_string(op) << ' ' << ranks << " ranks";
      }
    }
  });
}

TEST(Pattern, with_mixed_values_distinguishes_the_tree_from_a_left_fold) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto leaves = inputs(dtype, ReduceOp::sum, 5, Values::mixed, Pattern::period, 0);
    const Bytes folded = lockstep::test::left_fold(ReduceOp::sum, dtype, leaves);
    EXPECT_GT(Pattern::result(dtype, ReduceOp::sum, 5, Values::mixed).count_wrong(folded, 0), 0)
        << lockstep::to_string(dtype);
  }
}

TEST(Pattern, with_order_free_values_expects_the_same_of_every_order) {
  for_types_and_ops([&](DType dtype, ReduceOp op) {
    const auto leaves = inputs(dtype, op, 13, Values::order_free, Pattern::period, 0);
    const Bytes folded = lockstep::test::left_fold(op, dtype, leaves);
    EXPECT_EQ(Pattern::result(dtype, op, 13, Values::order_free).count_wrong(folded, 0), 0)
        << lockstep::to_string(dtype) << ' ' << lockstep::to_string(op);
  });
}

TEST(Pattern, counts_one_wrong_bit_stale_results_and_shifted_blocks) {
  const Pattern pattern = Pattern::result(DType::f32, ReduceOp::sum, 2, Values::mixed);
  constexpr std::size_t count = 3 * Pattern::period;
  const auto of_call = [&](std::int64_t call) {
    return lockstep::test::canonical_reduce(ReduceOp::sum, DType::f32,
                                            inputs(DType::f32, ReduceOp::sum, 2, Values::mixed, count, call));
  };
  Bytes result = of_call(3);
  result[4 * Pattern::period] ^= std::byte{1};
  EXPECT_EQ(pattern.count_wrong(result, 3), 1);
  EXPECT_GT(pattern.count_wrong(of_call(2), 3), static_cast<std::int64_t>(count) * 99 / 100);
  Bytes shifted = of_call(3);
  std::copy(shifted.begin() + 4 * Pattern::period, shifted.end(), shifted.begin());
  EXPECT_GT(pattern.count_wrong(shifted, 3), static_cast<std::int64_t>(count) / 2);
}

}  // namespace
}  // namespace perf
