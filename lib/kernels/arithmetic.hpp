// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What one reduction step does to two elements, and how leaves become accumulators and accumulators results: the
// definition, one element at a time. What runs is simd/; the tests hold it to this.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lockstep::detail {

/// The one NaN that results hold.
template <class A>
inline constexpr A canonical_nan = std::numeric_limits<A>::quiet_NaN();
template <>
inline constexpr float canonical_nan<float> = std::bit_cast<float>(0x7fc00000u);
template <>
inline constexpr double canonical_nan<double> = std::bit_cast<double>(0x7ff8000000000000ull);

/// IEEE 754-2019 minimum: NaN if either is, -0 below +0.
template <class A>
constexpr A minimum(A a, A b) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    using Bits = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
    // equal operands differ at most in the sign of a zero, which the union of their bits keeps negative
    const A smaller = a < b ? a : (b < a ? b : std::bit_cast<A>(std::bit_cast<Bits>(a) | std::bit_cast<Bits>(b)));
    return a != a || b != b ? canonical_nan<A> : smaller;
  } else {
    return b < a ? b : a;
  }
}

/// IEEE 754-2019 maximum: NaN if either is, +0 above -0.
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

/// One step of the tree. Integer sums and products wrap.
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
    // through a type that cannot overflow into undefined behaviour: at least unsigned int
    using Wide = std::common_type_t<std::make_unsigned_t<A>, unsigned>;
    const Wide x = static_cast<Wide>(a);
    const Wide y = static_cast<Wide>(b);
    return static_cast<A>(op == ReduceOp::prod ? x * y : x + y);
  } else {
    return op == ReduceOp::prod ? a * b : a + b;
  }
}

/// A leaf as accumulator: exact.
template <class A, class T>
constexpr A widen(T leaf) noexcept {
  return static_cast<A>(leaf);
}

/// An accumulator as result: NaN made canonical, rounded once to nearest even.
template <class O, class A>
constexpr O finish(A value) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    if (value != value) value = canonical_nan<A>;
  }
  return static_cast<O>(value);
}

}  // namespace lockstep::detail
