// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/float16.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep {
namespace {

/// The value of a binary16 number, computed from its definition.
double value_of_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Float16, widens_every_pattern_exactly) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float wide = float(Float16::from_bits(bits));
    if ((bits & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(wide), (bits & 0x3ff) != 0) << i;
      EXPECT_EQ(std::isinf(wide), (bits & 0x3ff) == 0) << i;
      continue;
    }
    ASSERT_EQ(double(wide), value_of_f16(bits)) << i;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << i;
    ASSERT_EQ(Float16(wide).bits(), bits) << i;
  }
}

TEST(Float16, rounds_to_nearest_even_between_all_neighbours) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = value_of_f16(bits);
    const double high = value_of_f16(static_cast<std::uint16_t>(bits + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact: binary32 has enough digits
    const auto even = static_cast<std::uint16_t>((bits & 1) != 0 ? bits + 1 : bits);
    ASSERT_EQ(Float16(middle).bits(), even) << bits;
    ASSERT_EQ(Float16(std::nextafter(middle, 0.0f)).bits(), bits) << bits;
    ASSERT_EQ(Float16(std::nextafter(middle, 1e9f)).bits(), bits + 1) << bits;
    ASSERT_EQ(Float16(-middle).bits(), even | 0x8000) << bits;
  }
  EXPECT_EQ(Float16(65519.996f).bits(), 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits(), 0x7c00);
  EXPECT_EQ(Float16(std::numeric_limits<float>::quiet_NaN()).bits(), 0x7e00);
}

TEST(BFloat16, rounds_to_nearest_even_and_keeps_subnormals) {
  EXPECT_EQ(BFloat16(1.0f).bits(), 0x3f80);
  EXPECT_EQ(BFloat16(1e-40f).bits(), 0x0001);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::infinity()).bits(), 0x7f80);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits(), 0x7f80);
  EXPECT_EQ(BFloat16(-std::numeric_limits<float>::quiet_NaN()).bits(), 0x7fc0);
  for (std::uint32_t i = 0; i < 0x7f7f; ++i) {
    const float low = float(BFloat16::from_bits(static_cast<std::uint16_t>(i)));
    const float middle = std::bit_cast<float>((i << 16) | 0x8000u);
    ASSERT_EQ(BFloat16(low).bits(), i);
    ASSERT_EQ(BFloat16(middle).bits(), (i & 1) != 0 ? i + 1 : i);
    ASSERT_EQ(BFloat16(std::bit_cast<float>((i << 16) | 0x8001u)).bits(), i + 1);
  }
}

}  // namespace
}  // namespace lockstep
