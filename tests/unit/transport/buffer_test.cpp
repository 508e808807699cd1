// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/buffer.hpp"

#include <gtest/gtest.h>

#include <cstddef>

namespace lockstep::test {
namespace {

using namespace detail;

constexpr std::size_t kib = std::size_t{1} << 10;

TEST(Buffer, has_whole_lines_or_whole_huge_pages) {
  EXPECT_EQ(Buffer().size(), 0U);
  EXPECT_EQ(Buffer(0).size(), 0U);
  EXPECT_EQ(Buffer(1).size(), 64U);
  EXPECT_EQ(Buffer(64 * kib).size(), 64 * kib);
  EXPECT_LT(Buffer(100 * kib + 1).size(), 101 * kib);
  EXPECT_EQ(Buffer(2048 * kib).size(), 2048 * kib);
  EXPECT_LT(Buffer(2048 * kib + 1).size(), 2 * (2048 * kib + 1));
}

}  // namespace
}  // namespace lockstep::test
