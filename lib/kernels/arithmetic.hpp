// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The scalar definition of a reduction: how two elements are combined, how leaves become accumulators, and how
// accumulators become results. The production code is in simd/; the tests compare its results with this definition.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lockstep::detail {

/// The canonical quiet NaN, the only NaN in results.
template <class A>
inline constexpr A canonical_nan = std::numeric_limits<A>::quiet_NaN();
template <>
inline constexpr float canonical_nan<float> = std::bit_cast<float>(0x7fc00000u);
template <>
inline constexpr double canonical_nan<double> = std::bit_cast<double>(0x7ff8000000000000ull);

/// IEEE 754-2019 minimum: NaN if either operand is NaN; -0 is below +0.
template <class A>
constexpr A minimum(A a, A b) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    using Bits = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
    // equal operands differ at most in the sign of a zero; the bitwise OR of +0 and -0 is -0
    const A smaller = a < b ? a : (b < a ? b : std::bit_cast<A>(std::bit_cast<Bits>(a) | std::bit_cast<Bits>(b)));
    return a != a || b != b ? canonical_nan<A> : smaller;
  } else {
    return b < a ? b : a;
  }
}

/// IEEE 754-2019 maximum: NaN if either operand is NaN; +0 is above -0.
template <class A>
constexpr A maximum(A a, A b) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    using Bits = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
    const A larger = a > b ? a : (b > a ? b : std::bit_cast<A>(std::bit_cast<Bits>(a) & std::bit_cast<Bits>(b)));
    return a != a || b != b ? canonical_nan<A> : larger;
  } else {
    return a < b ? b : a;
  }
}

/// Combines two nodes of the tree. Integer sums and products wrap.
template <ReduceOp op, class A>
constexpr A combine(A a, A b) noexcept {
  if constexpr (op == ReduceOp::min) {
    return minimum(a, b);
  } else if constexpr (op == ReduceOp::max) {
    return maximum(a, b);
  } else if constexpr (op == ReduceOp::band) {
    return static_cast<A>(a & b);
  } else if constexpr (op == ReduceOp::bor) {
    return static_cast<A>(a | b);
  } else if constexpr (op == ReduceOp::bxor) {
    return static_cast<A>(a ^ b);
  } else if constexpr (std::is_integral_v<A>) {
    // computed in an unsigned type of at least the width of unsigned int, in which overflow is defined
    using Wide = std::common_type_t<std::make_unsigned_t<A>, unsigned>;
    const Wide x = static_cast<Wide>(a);
    const Wide y = static_cast<Wide>(b);
    return static_cast<A>(op == ReduceOp::prod ? x * y : x + y);
  } else {
    return op == ReduceOp::prod ? a * b : a + b;
  }
}

/// Converts a leaf to an accumulator. Exact, except that 64-bit integers are rounded to f64.
template <class A, class T>
constexpr A widen(T leaf) noexcept {
  return static_cast<A>(leaf);
}

/// Converts an accumulator to a result: makes NaN canonical and rounds once, to nearest, ties to even.
template <class O, class A>
constexpr O finish(A value) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    if (value != value) value = canonical_nan<A>;
  }
  return static_cast<O>(value);
}

}  // namespace lockstep::detail
