// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// JSON without memory: each allocation of a reading, a writing and a destruction fails.

#include "base/json_reader.hpp"
#include "base/json_writer.hpp"
#include "support/counted_allocations.hpp"
#include "support/function_ref.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {
namespace {

// Longer than a std::string stores in itself; lists and objects in each other, and with elements of each kind.
constexpr std::string_view text =
    R"({"a name that is longer than a text without memory":[1,[2,[],{}],{"list":[[[3]],"another text that is long"]}],)"
    R"("object":{"x":{"y":{"z":null}},"numbers":[0,1,2,3,4,5,6,7,8,9,1.5]}})";

/// Makes the call with each of its allocations failing, then with none. Returns how many fail.
long lets_each_allocation_fail(test::FunctionRef<void()> call) {
  for (long k = 0;; ++k) {
    const long before = test::held_blocks;
    allocations_before_failure = k;
    try {
      call();
      allocations_before_failure = -1;
      return k;
    } catch (const std::bad_alloc&) {  // and no other exception
    }
    EXPECT_EQ(test::held_blocks, before) << "a leak after allocation " << k;
  }
}

TEST(JsonShortage, ends_a_reading_with_bad_alloc) {
  EXPECT_GT(lets_each_allocation_fail([] { static_cast<void>(read_json(text)); }), 50);
}

TEST(JsonShortage, ends_the_reading_of_a_damaged_text_with_bad_alloc) {
  const std::string damaged = std::string(text.substr(0, text.size() - 2)) + ",\"numbers\":}";
  const std::string duplicate = std::string(text.substr(0, text.size() - 1)) + ",\"object\":1}";
  for (const std::string& each : {damaged, duplicate}) {
    EXPECT_GT(lets_each_allocation_fail([&each] {
                try {
                  static_cast<void>(read_json(each));
                } catch (const JsonError&) {  // NOLINT(bugprone-empty-catch)
                }
              }),
              50);
  }
}

TEST(JsonShortage, does_not_allocate_in_a_destruction) {
  JsonDocument document = read_json(text);
  const long before = allocations;
  document.reset();
  EXPECT_EQ(allocations - before, 0);
}

TEST(JsonShortage, ends_a_writing_with_bad_alloc) {
  EXPECT_GT(lets_each_allocation_fail([] {
              JsonWriter json;
              json.begin_object().member("list", std::vector<std::string>(3, "a text that is longer than 15 bytes"));
              json.name("objects").begin_array().begin_object().member("number", 0.5).end_object().end_array();
              static_cast<void>(json.end_object().take());
            }),
            10);
}

}  // namespace
}  // namespace lockstep::detail
