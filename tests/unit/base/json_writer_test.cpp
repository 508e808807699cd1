// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/json_writer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {
namespace {

using Json = nlohmann::ordered_json;

std::string written(JsonWriter::Form form) {
  JsonWriter json(form);
  json.begin_object()
      .member("text", "a\"\\\n\x1b\xc3\xa9")
      .member("number", 0.1)
      .member("list", std::vector<int>{1, -2})
      .member("empty list", std::vector<int>());
  json.name("objects").begin_array();
  json.begin_object().end_object();
  json.begin_object().member("of texts", std::vector<std::string>{"x", ""}).end_object();
  return json.end_array().member("last", std::optional<int>()).end_object().take();
}

TEST(JsonWriter, writes_what_the_library_writes) {
  const Json same{{"text", "a\"\\\n\x1b\xc3\xa9"},
                  {"number", 0.1},
                  {"list", {1, -2}},
                  {"empty list", Json::array()},
                  {"objects", {Json::object(), {{"of texts", {"x", ""}}}}},
                  {"last", nullptr}};
  EXPECT_EQ(written(JsonWriter::Form::one_line), same.dump());
  EXPECT_EQ(written(JsonWriter::Form::indented), same.dump(1));
}

TEST(JsonWriter, writes_one_value_of_any_kind) {
  EXPECT_EQ(JsonWriter().value(std::numeric_limits<std::uint64_t>::max()).take(), "18446744073709551615");
  EXPECT_EQ(JsonWriter().value(std::numeric_limits<std::int64_t>::min()).take(), "-9223372036854775808");
  EXPECT_EQ(JsonWriter().value(2.0).take(), "2.0");
  EXPECT_EQ(JsonWriter().value(std::numeric_limits<double>::infinity()).take(), "null");
  EXPECT_EQ(JsonWriter().value(std::optional(7)).take(), "7");
  EXPECT_EQ(JsonWriter().value(std::vector<std::vector<int>>{{1}, {}}).take(), "[[1],[]]");
}

TEST(JsonWriter, replaces_bytes_that_are_not_utf_8) {
  EXPECT_EQ(JsonWriter().begin_object().member("\xff", "a\xe2\x82").end_object().take(),
            "{\"\xef\xbf\xbd\":\"a\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace lockstep::detail
