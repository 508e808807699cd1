// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/shm/node_group.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/device/arena.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep::test {
namespace {

using namespace detail;

/// A group of two members that are both this process: `change` may corrupt the data that the second member sends.
std::unique_ptr<NodeGroup> group_of_two(bool share_memory, const std::function<void(std::byte*, std::size_t)>& change,
                                        std::string& why) {
  const auto exchange = [&](const void* mine, void* all, std::size_t bytes) {
    auto* const parts = static_cast<std::byte*>(all);
    std::memcpy(parts, mine, bytes);
    std::memcpy(parts + bytes, mine, bytes);
    change(parts + bytes, bytes);
  };
  return make_process_group(0, 2, share_memory, exchange, why);
}

TEST(ProcessGroup, finds_the_same_bytes_from_every_member) {
  std::string why;
  const auto group = group_of_two(true, [](std::byte*, std::size_t) {}, why);
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

TEST(ProcessGroup, is_not_made_if_one_member_cannot_share) {
  std::string why;
  EXPECT_EQ(group_of_two(false, [](std::byte*, std::size_t) {}, why), nullptr);
  EXPECT_EQ(why, "it is disabled");
  why.clear();
  // the second member has no segment, or reports later that it could not map the other segment
  EXPECT_EQ(group_of_two(true, [](std::byte* part, std::size_t bytes) { std::memset(part, 0, bytes); }, why), nullptr);
  EXPECT_FALSE(why.empty());
  why.clear();
  const auto refuse_later = [](std::byte* part, std::size_t bytes) {
    if (bytes == 1) *part = std::byte{0};
  };
  EXPECT_EQ(group_of_two(true, refuse_later, why), nullptr);
  EXPECT_NE(why.find("rank 1"), std::string::npos) << why;
}

TEST(ProcessGroup, frees_control_blocks_when_all_members_have_left) {
  std::string why;
  if (!group_of_two(true, [](std::byte*, std::size_t) {}, why)) GTEST_SKIP() << why;
  const std::size_t used = arena_status().used_bytes;
  for (int i = 0; i < 50; ++i) static_cast<void>(group_of_two(true, [](std::byte*, std::size_t) {}, why));
  // one line per group remains, for members that leave later
  EXPECT_LE(arena_status().used_bytes, used + 50 * 64);
}

}  // namespace
}  // namespace lockstep::test
