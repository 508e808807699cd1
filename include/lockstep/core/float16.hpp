// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Types that store numbers in the two 16-bit floating-point formats. Arithmetic is done in float. Rounding is to
// nearest, ties to even, and uses integer operations only, so that the bits do not depend on the processor.

#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {
namespace detail {

/// Converts IEEE 754 binary16 to binary32. Exact; a NaN keeps its payload and becomes quiet.
constexpr float f16_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13) | quiet);
  }
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
  // zero and subnormals: fraction * 2^-24 is exact in binary32
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// Converts binary32 to binary16; rounds to nearest, ties to even. Overflow gives infinity; a NaN gives the canonical
/// NaN.
constexpr std::uint16_t float_to_f16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // at least 65520
  if (magnitude >= 0x38800000u) {                                                   // normal, at least 2^-14
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  if (magnitude < 0x33000000u) return static_cast<std::uint16_t>(sign);  // below 2^-25
  const std::uint32_t shift = 126u - (magnitude >> 23);                  // 14..24
  const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t half = significand >> shift;
  const std::uint32_t rest = significand & ((1u << shift) - 1u);
  const std::uint32_t middle = 1u << (shift - 1u);
  const std::uint32_t up = rest > middle || (rest == middle && (half & 1u) != 0u) ? 1u : 0u;
  return static_cast<std::uint16_t>(sign | (half + up));
}

constexpr float bf16_to_float(std::uint16_t brain) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16);
}

/// Converts binary32 to bfloat16, rounded to nearest, ties to even. Keeps subnormals; a NaN gives the canonical NaN.
constexpr std::uint16_t float_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace detail

/// An IEEE 754 binary16 number. Trivially copyable, two bytes.
class Float16 {
 public:
  constexpr Float16() noexcept = default;
  constexpr explicit Float16(float value) noexcept : bits_(detail::float_to_f16(value)) {}
  [[nodiscard]] static constexpr Float16 from_bits(std::uint16_t bits) noexcept {
    Float16 result;
    result.bits_ = bits;
    return result;
  }
  [[nodiscard]] constexpr std::uint16_t bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr explicit operator float() const noexcept { return detail::f16_to_float(bits_); }
  /// Compares values as float does: NaN is unequal to itself, -0 equals +0.
  friend constexpr bool operator==(Float16 a, Float16 b) noexcept { return float(a) == float(b); }

 private:
  std::uint16_t bits_ = 0;
};

/// A bfloat16 number: the upper half of a binary32. Trivially copyable, two bytes.
class BFloat16 {
 public:
  constexpr BFloat16() noexcept = default;
  constexpr explicit BFloat16(float value) noexcept : bits_(detail::float_to_bf16(value)) {}
  [[nodiscard]] static constexpr BFloat16 from_bits(std::uint16_t bits) noexcept {
    BFloat16 result;
    result.bits_ = bits;
    return result;
  }
  [[nodiscard]] constexpr std::uint16_t bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr explicit operator float() const noexcept { return detail::bf16_to_float(bits_); }
  friend constexpr bool operator==(BFloat16 a, BFloat16 b) noexcept { return float(a) == float(b); }

 private:
  std::uint16_t bits_ = 0;
};

}  // namespace lockstep
