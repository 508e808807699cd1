// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "interop/c_line.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace lockstep::interop {
namespace {

TEST(CallerLine, has_the_same_file_for_equal_texts_and_another_for_other_texts_in_the_same_memory) {
  std::array<char, 8> text{'a', '.', 'F', '9', '0'};
  const auto* const first = CallerLine(text.data(), 40).location().file_name();
  text[0] = 'b';
  const auto* const second = CallerLine(text.data(), 40).location().file_name();
  const std::string again("a.F90");
  EXPECT_STREQ(first, "a.F90");
  EXPECT_STREQ(second, "b.F90");
  EXPECT_EQ(CallerLine(again.c_str(), 41).location().file_name(), first);
}

TEST(CallerLine, is_empty_without_a_file) {
  EXPECT_EQ(CallerLine(nullptr, 3).location().line(), 0U);
  EXPECT_EQ(CallerLine("a.c", 0).location().line(), 0U);
}

}  // namespace
}  // namespace lockstep::interop
