// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/printable.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace lockstep::detail {
namespace {

TEST(Printable, escapes_what_a_terminal_may_obey) {
  EXPECT_EQ(printable("\x1b[2Jgradients\x7f"), "\\x1b[2Jgradients\\x7f");
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\x0ab\\x0d\\x09c");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J")
      << "U+009B begins an escape sequence, too";
}

TEST(Printable, keeps_all_other_characters) {
  for (const char* const text : {"", "größe €", "\\x1b", "a b~", "\xc2\xa0", "\xf0\x9f\x98\x80"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, escapes_bytes_that_are_not_utf_8) {
  EXPECT_EQ(printable("a\xff"), "a\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xe2\x82z"), "\\xe2\\x82z");
  EXPECT_EQ(printable("\xe2\x82\xac\x80"), "\xe2\x82\xac\\x80");
}

TEST(Utf8, has_no_overlong_forms_surrogates_and_large_numbers) {
  for (const char* const text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5"})
    EXPECT_FALSE(is_utf8(text)) << printable(text);
  for (const char* const text :
       {"\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(text)) << printable(text);
  EXPECT_EQ(utf8_prefix("abc\xff"), 3U);
}

}  // namespace
}  // namespace lockstep::detail
