// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions, and the element types that they support.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>

#include <cstdint>
#include <string_view>

namespace lockstep {

/// A reduction over replicas. The order of the enumerators is part of the wire format.
enum class ReduceOp : std::uint8_t {
  sum,   ///< sum; integers wrap; f16 and bf16 are added in f32 and rounded once
  mean,  ///< the sum divided once by the number of replicas; the mean of integers is computed in f64 and is f64
  min,   ///< IEEE 754-2019 minimum: a NaN operand gives NaN, -0 < +0
  max,   ///< IEEE 754-2019 maximum
  prod,  ///< product; integers wrap; f16 and bf16 are multiplied in f32 and rounded once
  band,  ///< bitwise and; for bool: whether all operands are true
  bor,   ///< bitwise or; for bool: whether any operand is true
  bxor,  ///< bitwise exclusive or; for bool: whether the number of true operands is odd
};

inline constexpr int reduce_op_count = 8;

/// The order in which a reduction combines its operands. The canonical tree is a binary tree over replica ids: node
/// k of level j covers the existing replicas from k*2^j to (k+1)*2^j - 1, and combines its left half with its right
/// half.
enum class Order : std::uint8_t {
  canonical,  ///< along the canonical tree; the bits do not depend on the replica layout or the tensor size
  any,        ///< the order that MPI or NCCL chooses, for types that it supports; bits may depend on the layout
};

/// The name of `op`: "sum", "mean", ... Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(ReduceOp op) noexcept;
[[nodiscard]] LOCKSTEP_API std::string_view to_string(Order order) noexcept;

/// The operation named `name`; upper and lower case are not distinguished. Local. Throws Error(invalid_argument), whose
/// text lists the names, for any other text.
[[nodiscard]] LOCKSTEP_API ReduceOp parse_reduce_op(std::string_view name);

/// Whether `op` is band, bor or bxor. Local.
[[nodiscard]] constexpr bool is_bitwise(ReduceOp op) noexcept {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

/// Whether `op` supports elements of `dtype`: bool supports only min, max and the bitwise operations; floating-point
/// types support all operations except the bitwise operations. Local.
[[nodiscard]] constexpr bool supports(ReduceOp op, DType dtype) noexcept {
  if (is_bitwise(op)) return !is_floating_point(dtype);
  return dtype != DType::boolean || op == ReduceOp::min || op == ReduceOp::max;
}

/// The element type of partial results: f32 for f16 and bf16, f64 for the mean of integers, otherwise `dtype`. Local.
[[nodiscard]] constexpr DType accumulation_dtype(ReduceOp op, DType dtype) noexcept {
  if (dtype == DType::f16 || dtype == DType::bf16) return DType::f32;
  if (op == ReduceOp::mean && is_integer(dtype)) return DType::f64;
  return dtype;
}

/// The element type of the result: f64 for the mean of integers, otherwise `dtype`. Local.
[[nodiscard]] constexpr DType result_dtype(ReduceOp op, DType dtype) noexcept {
  return op == ReduceOp::mean && is_integer(dtype) ? DType::f64 : dtype;
}

}  // namespace lockstep
