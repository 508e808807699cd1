// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/random_word.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace lockstep::test {
namespace {

TEST(RandomWord, is_another_one_each_time_and_uses_all_bits) {
  std::set<std::uint64_t> words;
  std::uint64_t ones = 0;
  std::uint64_t zeros = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t word = detail::random_word();
    EXPECT_NE(word, 0U);
    words.insert(word);
    ones |= word;
    zeros |= ~word;
  }
  EXPECT_EQ(words.size(), 200U);
  EXPECT_EQ(ones, ~std::uint64_t{0});
  EXPECT_EQ(zeros, ~std::uint64_t{0});
}

}  // namespace
}  // namespace lockstep::test
