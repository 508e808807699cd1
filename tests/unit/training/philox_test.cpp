// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic below the random streams. The known answers are those that Random123, the authors' own library,
// publishes in tests/kat_vectors, lines "philox4x32 10" (github.com/DEShawResearch/random123).

#include "training/philox.hpp"

#include "training/normal_quantile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lockstep::detail {
namespace {

TEST(Philox, gives_the_known_answers_of_Random123) {
  EXPECT_EQ(philox_4x32_10({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox_4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxWords, are_the_blocks_one_after_the_other_from_any_position_on) {
  constexpr std::uint64_t key = 0x299f31d0a4093822;
  constexpr std::uint64_t far = (std::uint64_t{5} << 32) + 1;  // a block whose number has two words
  std::vector<std::uint32_t> expected;
  for (const std::uint64_t block : {far, far + 1, far + 2}) {
    for (const std::uint32_t word :
         philox_4x32_10({static_cast<std::uint32_t>(block), 5, 7, 9}, {0xa4093822, 0x299f31d0}))
      expected.push_back(word);
  }
  for (std::size_t start = 0; start < expected.size(); ++start) {
    PhiloxWords words(key, 7, 9, 4 * far + start);
    for (std::size_t i = start; i < expected.size(); ++i) EXPECT_EQ(words.next(), expected[i]) << start << ", " << i;
  }
  PhiloxWords words(key, 7, 9, 4 * far);
  EXPECT_EQ(words.next_64(), expected[0] | std::uint64_t{expected[1]} << 32);
}

TEST(NormalQuantile, is_the_inverse_of_the_distribution) {
  for (const double p : {0x1p-52, 1e-14, 1e-11, 2e-11, 1e-6, 0.01, 0.07, 0.08, 0.25, 0.499, 0.5, 0.8, 0.95}) {
    const double x = normal_quantile(p);
    EXPECT_NEAR(std::erfc(-x / std::sqrt(2.0)) / 2 / p, 1.0, 4e-14) << p;
  }
  EXPECT_EQ(normal_quantile(0.5), 0.0);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-15);
  EXPECT_EQ(normal_quantile(0.75), -normal_quantile(0.25));
}

}  // namespace
}  // namespace lockstep::detail
