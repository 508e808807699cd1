// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The element types of GPU kernels: their types in memory, and the arithmetic of kernels/arithmetic.hpp for them.
//
// Each class has the types in memory (Leaf, Partial, Result), the number of elements that a thread processes at a time
// (`lanes`), the conversion of leaves (`widen`), the combination (`combine`), and the conversion of the root to the
// result (`finish`). Rounding to 16 bits does not use the processor's conversion instructions, whose results may
// differ.

#pragma once

#include "device/cuda/bodies/device_code.hpp"
#include "kernels/arithmetic.hpp"

#include <lockstep/core/float16.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace lockstep::detail::cuda {

/// How the root of a fold is divided before it is rounded to the result.
struct Ending {
  bool divides = false;
  int replicas = 1;
};

/// The number of elements that a thread processes at a time: at most 8 elements, one word of leaves and two words of
/// partial results.
template <class Leaf, class Partial>
inline constexpr int lanes_of = [] {
  int lanes = 8;
  while (lanes * int{sizeof(Leaf)} > 16 || lanes * int{sizeof(Partial)} > 32) lanes /= 2;
  return lanes;
}();

/// The base class of all elements: leaves are of type L, partial results of type A, and results of type R.
template <class L, class A, class R, ReduceOp op>
struct Elements {
  using Leaf = L;
  using Partial = A;
  using Result = R;
  static constexpr int lanes = lanes_of<L, A>;
  /// Whether kernels exist that are specialised for a number of leaves: only for sums of floating-point numbers.
  static constexpr bool has_leaf_kernels = op == ReduceOp::sum && std::is_floating_point_v<A>;

  static LOCKSTEP_DEVICE A combine(A a, A b) { return detail::combine<op>(a, b); }

 protected:
  /// Divides the root if it is the sum of a mean, and makes a NaN canonical.
  static LOCKSTEP_DEVICE A ended(A root, const Ending& ending) {
    if constexpr (std::is_floating_point_v<A>) {
      if (ending.divides) root = root / static_cast<A>(ending.replicas);
    }
    return detail::finish<A>(root);
  }
};

/// Elements that have the same type as leaves, partial results and results.
template <class T, ReduceOp op>
struct Plain : Elements<T, T, T, op> {
  static LOCKSTEP_DEVICE T widen(T leaf) { return leaf; }
  static LOCKSTEP_DEVICE T finish(T root, const Ending& ending) { return Plain::ended(root, ending); }
};

/// Elements of bf16, accumulated in f32.
template <ReduceOp op>
struct Brain : Elements<std::uint16_t, float, std::uint16_t, op> {
  static LOCKSTEP_DEVICE float widen(std::uint16_t leaf) { return bf16_to_float(leaf); }
  static LOCKSTEP_DEVICE std::uint16_t finish(float root, const Ending& ending) {
    return float_to_bf16(Brain::ended(root, ending));
  }
};

/// Elements of f16, accumulated in f32. The conversions have no branches, unlike those of core/float16.hpp, and NaNs
/// lose their payload.
template <ReduceOp op>
struct Half : Elements<std::uint16_t, float, std::uint16_t, op> {
  static LOCKSTEP_DEVICE float widen(std::uint16_t leaf) {
    const auto on_top = std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(leaf) << 16);
    const std::uint32_t in_place = static_cast<std::uint32_t>(on_top >> 3) & 0x8fffffffu;
    // with the bias of f32, the exponent is too small by 112, also for subnormals; infinities and NaNs become 2^16 or
    // more
    const float scaled = std::bit_cast<float>(in_place) * 0x1p112F;
    return std::fabs(scaled) < 0x1p16F ? scaled : std::bit_cast<float>(in_place | 0x7f800000u);
  }
  static LOCKSTEP_DEVICE std::uint16_t finish(float root, const Ending& ending) {
    return rounded(Half::ended(root, ending));
  }

 private:
  /// Rounds `value` to f16. If `value` is a NaN, it must be the canonical NaN.
  static LOCKSTEP_DEVICE std::uint16_t rounded(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t is_odd = (magnitude >> 13) & 1u;
    std::uint32_t half = (magnitude + (0xfffu - 0x38000000u) + is_odd) >> 13;
    // if the magnitude is below 2^-14, adding 1/2 rounds it to a multiple of 2^-24, ties to even
    const float subnormal = std::bit_cast<float>(magnitude) + 0.5F;
    if (magnitude < 0x38800000u) half = std::bit_cast<std::uint32_t>(subnormal) - 0x3f000000u;
    if (magnitude >= 0x477ff000u) half = 0x7c00u;
    if (magnitude > 0x7f800000u) half = 0x7e00u;
    return static_cast<std::uint16_t>(sign | half);
  }
};

/// The number of elements that a thread processes at a time if it needs a stack of partial results: one word of partial
/// results, which occupy at least 4 bytes each in registers, but at least 8 bytes of leaves, so that loads are not
/// small.
template <class Elements>
inline constexpr int stack_lanes = [] {
  constexpr int leaf_bytes = sizeof(typename Elements::Leaf);
  constexpr int partial_bytes = sizeof(typename Elements::Partial) < 4 ? 4 : sizeof(typename Elements::Partial);
  int lanes = Elements::lanes;
  while (lanes * leaf_bytes > 8 && lanes * partial_bytes > 16) lanes /= 2;
  return lanes;
}();

/// The element class `Elements`, but with `stack_lanes`. With all lanes, the stack of elements of 16 bits would occupy
/// so many registers that only two thread blocks fit on a multiprocessor.
template <class Elements>
struct Narrow : Elements {
  static constexpr int lanes = stack_lanes<Elements>;
};

/// Elements of a mean of integers, accumulated in f64, with results in f64.
template <class T>
struct IntegerMean : Elements<T, double, double, ReduceOp::sum> {
  static constexpr bool has_leaf_kernels = false;
  static LOCKSTEP_DEVICE double widen(T leaf) { return static_cast<double>(leaf); }
  static LOCKSTEP_DEVICE double finish(double root, const Ending& ending) { return IntegerMean::ended(root, ending); }
};

}  // namespace lockstep::detail::cuda
