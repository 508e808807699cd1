// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/base/error.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(DType, maps_cpp_types_by_width_and_sign) {
  EXPECT_EQ(dtype_of<float>, DType::f32);
  EXPECT_EQ(dtype_of<long>, DType::i64);
  EXPECT_EQ(dtype_of<long long>, DType::i64);
  EXPECT_EQ(dtype_of<unsigned char>, DType::u8);
  EXPECT_EQ(dtype_of<const bool>, DType::boolean);
  EXPECT_EQ(dtype_of<BFloat16>, DType::bf16);
  static_assert(!Element<void*>);
}

TEST(DType, has_names_that_can_be_parsed) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("float32"), DType::f32);
  EXPECT_THROW((void)parse_dtype("f8"), Error);
}

TEST(ReduceOp, is_parsed_in_any_case_of_letters) {
  EXPECT_EQ(parse_reduce_op("SUM"), ReduceOp::sum);
  EXPECT_EQ(parse_reduce_op("Mean"), ReduceOp::mean);
  EXPECT_THROW((void)parse_reduce_op("median"), Error);
}

TEST(ReduceOp, has_names_that_can_be_parsed) {
  for (int i = 0; i < reduce_op_count; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    EXPECT_EQ(parse_reduce_op(to_string(op)), op);
  }
}

TEST(ReduceOp, combines_bits_of_integers_and_bool_only) {
  for (const ReduceOp op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
    for (int i = 0; i < dtype_count; ++i) {
      const auto dtype = static_cast<DType>(i);
      EXPECT_EQ(supports(op, dtype), is_integer(dtype) || dtype == DType::boolean);
    }
  }
}

TEST(ReduceOp, adds_and_multiplies_all_but_bool_and_compares_everything) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::prod})
      EXPECT_EQ(supports(op, dtype), dtype != DType::boolean) << to_string(op) << " " << to_string(dtype);
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max})
      EXPECT_TRUE(supports(op, dtype)) << to_string(op) << " " << to_string(dtype);
  }
}

TEST(ReduceOp, gives_f64_for_the_mean_of_integers) {
  EXPECT_EQ(result_dtype(ReduceOp::mean, DType::i32), DType::f64);
  EXPECT_EQ(result_dtype(ReduceOp::sum, DType::i32), DType::i32);
  EXPECT_EQ(accumulation_dtype(ReduceOp::sum, DType::bf16), DType::f32);
}

}  // namespace
}  // namespace lockstep
