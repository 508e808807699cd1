// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/node_group.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/device/arena.hpp>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

namespace lockstep::test {
namespace {

using namespace detail;

/// A group of two members that are both this process: `change` may corrupt the introduction of the second member. Null
/// with the reason in `why` if it cannot be made.
std::unique_ptr<NodeGroup> group_of_two(bool share_memory, const std::function<void(NodeIntroduction&)>& change,
                                        std::string& why) {
  ProcessGroupOffer offer(share_memory);
  std::array<NodeIntroduction, 2> members{offer.introduction(), offer.introduction()};
  change(members[1]);
  if (offer.open(0, members)) return offer.take();
  why = offer.why_not();
  offer.withdraw();
  return nullptr;
}
void nothing(NodeIntroduction&) {}

TEST(ProcessGroup, finds_the_same_bytes_from_every_member) {
  std::string why;
  const auto group = group_of_two(true, nothing, why);
  if (!group) GTEST_SKIP() << why;
  NodeMemory memory = group->allocate(1000);
  ASSERT_NE(memory.data(), nullptr);
  const NodeAddress address = group->address_of(memory.data(), 1000);
  ASSERT_NE(address, NodeAddress::none);
  memory.data()[999] = std::byte{42};
  EXPECT_EQ(group->resolve(1, address, 1000)[999], std::byte{42});  // through a mapping of its own
  const int elsewhere = 0;
  EXPECT_EQ(group->address_of(&elsewhere, sizeof(elsewhere)), NodeAddress::none);
  EXPECT_THROW(static_cast<void>(group->resolve(1, NodeAddress::none, 1)), Error);
  EXPECT_THROW(static_cast<void>(group->resolve(1, address, std::size_t{1} << 50)), Error);
  EXPECT_EQ(&group->control_block(0), &group->own_control_block());
}

TEST(ProcessGroup, stages_growing_data_in_memory_that_does_not_add_up) {
  std::string why;
  const auto group = group_of_two(true, nothing, why);
  if (!group) GTEST_SKIP() << why;
  const std::size_t used = arena_status().used_bytes;
  constexpr std::size_t step = 4096;
  for (std::size_t bytes = step; bytes <= 128 * step; bytes += step) {
    group->reserve_inputs(bytes);
    group->reserve_results(bytes + 1);
    EXPECT_GE(group->staging().inputs.size(), bytes);
    EXPECT_GT(group->staging().results.size(), bytes);
    EXPECT_LE(arena_status().used_bytes, used + 2 * (2 * bytes + 2 * (bytes + 1)));
  }
}

TEST(ProcessGroup, gives_staging_memory_back_that_is_larger_than_all_recent_data) {
  std::string why;
  const auto group = group_of_two(true, nothing, why);
  if (!group) GTEST_SKIP() << why;
  const std::size_t used = arena_status().used_bytes;
  const auto reserve_often = [&](std::size_t bytes) {
    for (int i = 0; i < 2 * NodeGroup::staging_history; ++i) group->reserve_inputs(bytes);
  };
  constexpr std::size_t large = std::size_t{1} << 20;
  group->reserve_inputs(large);
  reserve_often(large / 2);
  EXPECT_EQ(group->staging().inputs.size(), large);
  reserve_often(1000);
  EXPECT_LE(arena_status().used_bytes, used + page_bytes());
}

TEST(ProcessGroup, is_not_made_if_one_member_cannot_share) {
  std::string why;
  EXPECT_EQ(group_of_two(false, nothing, why), nullptr);
  EXPECT_EQ(why, "it is disabled");
  why.clear();
  EXPECT_EQ(group_of_two(true, [](NodeIntroduction& second) { second = {}; }, why), nullptr);
  EXPECT_FALSE(why.empty());
}

TEST(ProcessGroup, keeps_the_control_block_of_an_offer_that_others_may_have_accepted) {
  if (ProcessGroupOffer(true).introduction().segment.nonce == 0) GTEST_SKIP() << "this host has no shared memory";
  const std::size_t used = arena_status().used_bytes;
  static_cast<void>(ProcessGroupOffer(true));
  EXPECT_GE(arena_status().used_bytes, used + sizeof(ControlBlock));
}

TEST(ProcessGroup, frees_the_control_block_of_an_offer_that_is_withdrawn) {
  const std::size_t used = arena_status().used_bytes;
  for (int i = 0; i < 50; ++i) ProcessGroupOffer(true).withdraw();
  EXPECT_LE(arena_status().used_bytes, used + 50 * 64);
}

TEST(ProcessGroup, frees_control_blocks_when_all_members_have_left) {
  std::string why;
  if (!group_of_two(true, nothing, why)) GTEST_SKIP() << why;
  const std::size_t used = arena_status().used_bytes;
  for (int i = 0; i < 50; ++i) static_cast<void>(group_of_two(true, nothing, why));
  // one line per group remains, for members that leave later
  EXPECT_LE(arena_status().used_bytes, used + 50 * 64);
}

}  // namespace
}  // namespace lockstep::test
