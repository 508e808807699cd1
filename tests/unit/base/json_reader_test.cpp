// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/json_reader.hpp"

#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace lockstep::detail {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  try {
    return "no error: " + read_json(text, limits)->dump();
  } catch (const JsonError& error) {
    EXPECT_NE(std::string(error.what()).find("byte"), std::string::npos);
    return error.what();
  }
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonReader, reads_what_the_parser_reads) {
  for (const char* const text :
       {"null", "true", "-1", "18446744073709551615", "1e300", "0.1", R"("a\u00e9\n\"")", "[]", "{}",
        "[[],{},[1,[2]],3]", R"({"b":{"a":[1,{"x":null}],"c":{}},"a":[{"k":1},{"k":2}]})", R"({"":0})", " [ 1 ,\n2 ] "})
    EXPECT_EQ(*read_json(text), nlohmann::json::parse(text)) << text;
}

TEST(JsonReader, names_the_place_of_an_error) {
  EXPECT_EQ(error_of(""), "invalid JSON at byte 1");
  EXPECT_EQ(error_of("[1, 2"), "invalid JSON at byte 6");
  EXPECT_EQ(error_of("[1] 2"), "invalid JSON at byte 5");
  EXPECT_EQ(error_of(R"(["\x"])"), "invalid JSON at byte 4");
  EXPECT_EQ(error_of("\xc3\xa9"), "invalid JSON at byte 1");
}

TEST(JsonReader, refuses_bytes_that_are_not_utf_8) {
  EXPECT_EQ(error_of("[\"a\xff\"]"), "invalid UTF-8 at byte 4");
  EXPECT_EQ(error_of("[\"\xc3\xa9\xe2\x82\"]"), "invalid UTF-8 at byte 5");
  EXPECT_EQ(error_of(R"(["\ud800"])"), "invalid JSON at byte 9") << "half of a surrogate pair";
}

TEST(JsonReader, refuses_numbers_that_are_not_finite) {
  EXPECT_EQ(error_of(R"({"a": 1e999})"), "the number 1e999 at byte 7 is out of range");
  EXPECT_EQ(error_of("-1e999"), "the number -1e999 at byte 1 is out of range");
  EXPECT_EQ(error_of("[NaN]"), "invalid JSON at byte 2");
}

TEST(JsonReader, refuses_a_name_that_an_object_has_twice) {
  EXPECT_EQ(error_of(R"({"a": 1, "a": 2})"), R"(duplicate name "a" at byte 12)");
  EXPECT_EQ(error_of(R"({"a\u001b": 1, "a\u001b": 2})"), R"(duplicate name "a\x1b" at byte 24)");
  EXPECT_EQ(error_of(R"([{"a": 1}, {"a": {"a": 2}}])"), R"(no error: [{"a":1},{"a":{"a":2}}])");
  try {
    static_cast<void>(read_json(R"({"a": 1, "a": 2})"));
    FAIL();
  } catch (const JsonError& error) {
    EXPECT_EQ(error.rule(), JsonRule::unique_names);
    EXPECT_EQ(error.name(), "a");
    EXPECT_EQ(error.byte(), 12U);
  }
}

TEST(JsonReader, refuses_deep_nesting_where_it_begins) {
  EXPECT_EQ(error_of(nested(64)), "no error: " + nested(64));
  EXPECT_EQ(error_of(nested(65)), "more than 64 levels of nesting at byte 65");
  EXPECT_EQ(error_of(std::string(std::size_t{1} << 24, '[')), "more than 64 levels of nesting at byte 65");
  std::string objects;
  for (int k = 0; k < 100'000; ++k) objects += R"({"a":)";
  EXPECT_EQ(error_of(objects, {.depth = 3}), "more than 3 levels of nesting at byte 16");
}

TEST(JsonReader, refuses_more_values_and_bytes_than_the_limits) {
  EXPECT_EQ(error_of("[1,2]", {.values = 3}), "no error: [1,2]");
  EXPECT_EQ(error_of("[1,2,3]", {.values = 3}), "more than 3 values at byte 7");
  EXPECT_EQ(error_of("[1,2]", {.bytes = 5}), "no error: [1,2]");
  EXPECT_EQ(error_of("[1,2]", {.bytes = 4}), "the text has 5 bytes, but at most 4 are allowed");
}

TEST(JsonReader, takes_integers_that_fit_into_their_type) {
  EXPECT_EQ(json_integer<int>(*read_json("-2147483648"), "rank"), -2147483648);
  EXPECT_EQ(json_integer<std::uint64_t>(*read_json("18446744073709551615"), "n"), 18446744073709551615U);
  EXPECT_EQ(json_integer<std::uint64_t>(nlohmann::json(7), "n"), 7U);
  const auto refusal = [](const char* text, auto type) {
    try {
      static_cast<void>(json_integer<decltype(type)>(*read_json(text), "rank"));
    } catch (const JsonValueError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal("2147483648", int{}), "rank must be an integer from -2147483648 to 2147483647, but is 2147483648");
  EXPECT_EQ(refusal("18446744073709551615", std::int64_t{}),
            "rank must be an integer from -9223372036854775808 to 9223372036854775807, but is 18446744073709551615");
  EXPECT_EQ(refusal("-1", std::uint64_t{}), "rank must be an integer from 0 to 18446744073709551615, but is -1");
  EXPECT_EQ(refusal("1e20", int{}), "rank must be an integer from -2147483648 to 2147483647, but is 1e+20");
  EXPECT_EQ(refusal("\"\\u009b\"", int{}),
            "rank must be an integer from -2147483648 to 2147483647, but is \"\\xc2\\x9b\"");
}

TEST(JsonReader, reads_files_up_to_a_limit) {
  const test::TemporaryDirectory folder;
  const std::string path = folder.path() / "a.json";
  std::ofstream(path) << "[1, 2]\n";
  EXPECT_EQ(read_json_file(path)->dump(), "[1,2]");
  try {
    static_cast<void>(read_json_file(path, {.bytes = 3}));
    FAIL();
  } catch (const JsonError& error) {
    EXPECT_EQ(error.rule(), JsonRule::bytes);
  }
  EXPECT_THROW(static_cast<void>(read_json_file(folder.path() / "none.json")), std::system_error);
  EXPECT_THROW(static_cast<void>(read_json_file(folder.path())), std::system_error);
}

}  // namespace
}  // namespace lockstep::detail
