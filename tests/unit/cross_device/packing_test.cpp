// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Packs and communication options.

#include <lockstep/lockstep.hpp>

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::test {
namespace {

using Sizes = std::vector<std::int64_t>;

std::vector<Sizes> packs(const Sizes& bytes, std::int64_t bytes_per_pack) {
  std::vector<Sizes> result;
  for (const auto pack : group_by_size(bytes, bytes_per_pack)) result.emplace_back(pack.begin(), pack.end());
  return result;
}

TEST(Packs, are_closed_when_they_have_exceeded_the_limit) {
  EXPECT_EQ(packs({128, 32, 800, 4}, 200), (std::vector<Sizes>{{128, 32, 800}, {4}}));
  EXPECT_EQ(packs({8, 8, 8, 8}, 8), (std::vector<Sizes>{{8, 8}, {8, 8}}));
  EXPECT_EQ(packs({300, 4, 4}, 200), (std::vector<Sizes>{{300}, {4, 4}}));
  EXPECT_EQ(packs({8, 8, 8}, 1), (std::vector<Sizes>{{8}, {8}, {8}}));
}

TEST(Packs, without_a_limit_are_one_and_of_an_empty_list_none) {
  EXPECT_EQ(packs({128, 32, 800, 4}, 0), (std::vector<Sizes>{{128, 32, 800, 4}}));
  EXPECT_TRUE(packs({}, 8).empty());
  expect_error(Code::invalid_argument, {"group_by_size", "bytes_per_pack is -1"}, [] { (void)packs({1}, -1); });
}

TEST(CommunicationOptions_, refuse_invalid_values) {
  expect_error(Code::invalid_argument, {"bytes_per_pack is -1", "at least 0"},
               [] { (void)CommunicationOptions{.bytes_per_pack = -1}; });
  expect_error(Code::invalid_argument, {"timeout_seconds is 0", "positive"},
               [] { (void)CommunicationOptions{.timeout_seconds = 0}; });
  expect_error(Code::invalid_argument, {"BOGUS", "AUTO, RING or NCCL"},
               [] { (void)CommunicationOptions{.implementation = "BOGUS"}; });
  expect_error(Code::invalid_argument, {"num_packs is -1"}, [] { AllReduceCrossDeviceOps ops(-1); });
}

TEST(CommunicationOptions_, merge_so_that_values_other_than_the_default_win) {
  const CommunicationOptions a{.bytes_per_pack = 8, .timeout_seconds = 5, .implementation = "ring"};
  const CommunicationOptions merged = a.merged({.timeout_seconds = 7});
  EXPECT_EQ(merged.bytes_per_pack, 8);
  EXPECT_EQ(*merged.timeout_seconds, 7);
  EXPECT_EQ(to_string(merged.implementation), "RING");
  EXPECT_EQ(merged.deadline(), std::chrono::seconds(7));
  EXPECT_TRUE(CommunicationOptions{}.is_default());
  EXPECT_FALSE(a.is_default());
  EXPECT_EQ(to_string(CommunicationOptions{}.implementation), "AUTO");
}

}  // namespace
}  // namespace lockstep::test
