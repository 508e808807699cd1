// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on two arrays, element by element. This file defines how two elements are combined.

#pragma once

#include "core/visit_dtype.hpp"
#include "kernels/arithmetic.hpp"

#include <lockstep/core/dtype.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep::detail {

/// An operation on two elements. `update` gives the second element; only sparse updates have it.
enum class ElementOp : std::uint8_t { add, sub, mul, div, min, max, update };

/// The type in which elements of T are combined: f32 for f16 and bf16, otherwise T.
template <class T>
using operand_t = std::conditional_t<std::integral<T>, T, sum_t<T>>;

/// Computes `left op right`. Integers wrap and must not be divided by 0. Minimum and maximum are the same as in
/// reductions.
template <ElementOp op, class A>
constexpr A combine_elements(A left, A right) noexcept {
  if constexpr (op == ElementOp::add) {
    return combine<ReduceOp::sum>(left, right);
  } else if constexpr (op == ElementOp::mul) {
    return combine<ReduceOp::prod>(left, right);
  } else if constexpr (op == ElementOp::min) {
    return minimum(left, right);
  } else if constexpr (op == ElementOp::max) {
    return maximum(left, right);
  } else if constexpr (std::is_floating_point_v<A>) {
    return op == ElementOp::sub ? left - right : left / right;
  } else {
    using Wide = std::common_type_t<std::make_unsigned_t<A>, unsigned>;
    if constexpr (op == ElementOp::sub) return static_cast<A>(static_cast<Wide>(left) - static_cast<Wide>(right));
    if constexpr (std::is_signed_v<A>) {
      if (right == A{-1}) return static_cast<A>(Wide{0} - static_cast<Wide>(left));  // lowest value / -1 overflows
    }
    return static_cast<A>(left / right);
  }
}

/// An operand of elementwise arithmetic: an array, or one number in place of every element.
struct Operand {
  const void* array = nullptr;  ///< null if the operand is a number
  alignas(8) std::array<unsigned char, 8> number{};
};

/// Sets the elements of `target` to `left op right`. f16 and bf16 are combined in f32 and rounded once; every NaN
/// becomes canonical.
struct Elementwise {
  ElementOp op = ElementOp::add;  ///< add, sub, mul or div
  DType dtype = DType::f32;       ///< not bool
  void* target = nullptr;         ///< may be the same array as an operand, but not overlap it partly
  Operand left;
  Operand right;
  std::int64_t count = 0;
};

/// Computes on this thread. Every array must be aligned to its element size. Integers must not be divided by 0.
/// Thread-safety: any thread. Does not allocate.
void compute_elementwise(const Elementwise& what);

}  // namespace lockstep::detail
