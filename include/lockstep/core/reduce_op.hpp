// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions, and which element types they take.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>

#include <cstdint>
#include <string_view>

namespace lockstep {

/// Every reduction is evaluated along the canonical tree over replica ids. The order of the enumerators is part of the
/// wire format.
enum class ReduceOp : std::uint8_t {
  sum,   ///< integers wrap; f16 and bf16 add in f32 and round once
  mean,  ///< the sum divided once by the number of replicas; of integers, in f64 and giving f64
  min,   ///< IEEE 754-2019 minimum: a NaN operand gives NaN, -0 < +0
  max,   ///< IEEE 754-2019 maximum
  prod,  ///< as sum, with products
  band,  ///< bitwise and; of bool, whether all are true
  bor,   ///< bitwise or; of bool, whether one is true
  bxor,  ///< bitwise exclusive or; of bool, whether the number of true ones is odd
};

inline constexpr int reduce_op_count = 8;

/// Whether the computed order is the canonical tree, or whatever the MPI library or NCCL does.
enum class Order : std::uint8_t {
  canonical,  ///< the same bits for every layout and size
  any,        ///< the library's own reduction where it has the type; bits may change with the layout
};

/// "sum", "mean", ... Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(ReduceOp op) noexcept;
[[nodiscard]] LOCKSTEP_API std::string_view to_string(Order order) noexcept;

/// The op of that name, in any case of letters. Local. Throws Error(invalid_argument) that lists the names.
[[nodiscard]] LOCKSTEP_API ReduceOp parse_reduce_op(std::string_view name);

/// band, bor or bxor. Local.
[[nodiscard]] constexpr bool is_bitwise(ReduceOp op) noexcept {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

/// Whether `op` takes elements of `dtype`: bool takes min, max and the bitwise ops only, which floating-point types do
/// not take. Local.
[[nodiscard]] constexpr bool supports(ReduceOp op, DType dtype) noexcept {
  if (is_bitwise(op)) return !is_floating_point(dtype);
  return dtype != DType::boolean || op == ReduceOp::min || op == ReduceOp::max;
}

/// The element type in which partial results are kept: f32 for f16 and bf16, f64 for the mean of integers, else
/// `dtype`. Local.
[[nodiscard]] constexpr DType accumulation_dtype(ReduceOp op, DType dtype) noexcept {
  if (dtype == DType::f16 || dtype == DType::bf16) return DType::f32;
  if (op == ReduceOp::mean && is_integer(dtype)) return DType::f64;
  return dtype;
}

/// The element type of the result: f64 for the mean of integers, else `dtype`. Local.
[[nodiscard]] constexpr DType result_dtype(ReduceOp op, DType dtype) noexcept {
  return op == ReduceOp::mean && is_integer(dtype) ? DType::f64 : dtype;
}

}  // namespace lockstep
