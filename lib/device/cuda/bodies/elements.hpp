// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How elements lie in memory, and what they are combined as: kernels/arithmetic.hpp for one thread of a GPU.
//
// Each of these has the types in memory (Leaf, Partial, Result), the number of elements that a thread has at a time
// (`lanes`), `widen` for leaves, `combine`, and `finish` for what is done to the root. Rounding to 16 bits is by
// integer steps: the bits do not depend on the processor.

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

/// What is done to the root of a fold besides rounding.
struct Ending {
  bool divides = false;
  int replicas = 1;
};

/// As many as make one word of leaves or two of partials, and no more than keep a stack of them in registers.
template <class Leaf, class Partial>
inline constexpr int lanes_of = [] {
  int lanes = 8;
  while (lanes * int{sizeof(Leaf)} > 16 || lanes * int{sizeof(Partial)} > 32) lanes /= 2;
  return lanes;
}();

/// What all elements that are accumulated as A share.
template <class L, class A, class R, ReduceOp op>
struct Elements {
  using Leaf = L;
  using Partial = A;
  using Result = R;
  static constexpr int lanes = lanes_of<L, A>;
  /// Sums of floating-point numbers have kernels of their own for some numbers of leaves.
  static constexpr bool has_leaf_kernels = op == ReduceOp::sum && std::is_floating_point_v<A>;

  static LOCKSTEP_DEVICE A combine(A a, A b) { return detail::combine<op>(a, b); }

 protected:
  /// The root divided for a mean, NaN canonical.
  static LOCKSTEP_DEVICE A ended(A root, const Ending& ending) {
    if constexpr (std::is_floating_point_v<A>) {
      if (ending.divides) root = root / static_cast<A>(ending.replicas);
    }
    return detail::finish<A>(root);
  }
};

/// Elements that are their own accumulators.
template <class T, ReduceOp op>
struct Plain : Elements<T, T, T, op> {
  static LOCKSTEP_DEVICE T widen(T leaf) { return leaf; }
  static LOCKSTEP_DEVICE T finish(T root, const Ending& ending) { return Plain::ended(root, ending); }
};

/// bf16, accumulated in f32.
template <ReduceOp op>
struct Brain : Elements<std::uint16_t, float, std::uint16_t, op> {
  static LOCKSTEP_DEVICE float widen(std::uint16_t leaf) { return bf16_to_float(leaf); }
  static LOCKSTEP_DEVICE std::uint16_t finish(float root, const Ending& ending) {
    return float_to_bf16(Brain::ended(root, ending));
  }
};

/// f16, accumulated in f32, without core/float16's branches. Which NaN a leaf is gets lost.
template <ReduceOp op>
struct Half : Elements<std::uint16_t, float, std::uint16_t, op> {
  static LOCKSTEP_DEVICE float widen(std::uint16_t leaf) {
    const auto on_top = std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(leaf) << 16);
    const std::uint32_t in_place = static_cast<std::uint32_t>(on_top >> 3) & 0x8fffffffu;
    // with f32's bias the exponent means 2^112 less, that of subnormals as well; infinities and NaN come out at 2^16
    const float scaled = std::bit_cast<float>(in_place) * 0x1p112F;
    return std::fabs(scaled) < 0x1p16F ? scaled : std::bit_cast<float>(in_place | 0x7f800000u);
  }
  static LOCKSTEP_DEVICE std::uint16_t finish(float root, const Ending& ending) {
    return rounded(Half::ended(root, ending));
  }

 private:
  /// NaNs of `value` are canonical.
  static LOCKSTEP_DEVICE std::uint16_t rounded(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t is_odd = (magnitude >> 13) & 1u;
    std::uint32_t half = (magnitude + (0xfffu - 0x38000000u) + is_odd) >> 13;
    // below 2^-14: adding 1/2 rounds to a multiple of 2^-24, to nearest even
    const float subnormal = std::bit_cast<float>(magnitude) + 0.5F;
    if (magnitude < 0x38800000u) half = std::bit_cast<std::uint32_t>(subnormal) - 0x3f000000u;
    if (magnitude >= 0x477ff000u) half = 0x7c00u;
    if (magnitude > 0x7f800000u) half = 0x7e00u;
    return static_cast<std::uint16_t>(sign | half);
  }
};

/// The mean of integers: accumulated in f64, and f64.
template <class T>
struct IntegerMean : Elements<T, double, double, ReduceOp::sum> {
  static constexpr bool has_leaf_kernels = false;
  static LOCKSTEP_DEVICE double widen(T leaf) { return static_cast<double>(leaf); }
  static LOCKSTEP_DEVICE double finish(double root, const Ending& ending) { return IntegerMean::ended(root, ending); }
};

}  // namespace lockstep::detail::cuda
