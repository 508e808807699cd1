// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "transport/buffer.hpp"
#include "support/quick.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <limits>
#include <new>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using namespace detail;

constexpr std::size_t kib = std::size_t{1} << 10;

/// An operation that has `count` buffers of `bytes` bytes at one time. Returns the places of the buffers.
std::set<const std::byte*> use(Workspace& workspace, std::size_t count, std::size_t bytes) {
  std::vector<Buffer> buffers;
  std::set<const std::byte*> places;
  for (std::size_t i = 0; i < count; ++i) {
    buffers.push_back(workspace.take(bytes));
    EXPECT_GE(buffers.back().size(), bytes);
    places.insert(buffers.back().data());
  }
  for (Buffer& buffer : buffers) workspace.give_back(std::move(buffer));
  return places;
}

TEST(Buffer, has_whole_lines_or_whole_huge_pages) {
  EXPECT_EQ(Buffer().size(), 0U);
  EXPECT_EQ(Buffer(0).size(), 0U);
  EXPECT_EQ(Buffer(1).size(), 64U);
  EXPECT_EQ(Buffer(64 * kib).size(), 64 * kib);
  EXPECT_LT(Buffer(100 * kib + 1).size(), 101 * kib);
  EXPECT_EQ(Buffer(2048 * kib).size(), 2048 * kib);
  EXPECT_LT(Buffer(2048 * kib + 1).size(), 2 * (2048 * kib + 1));
}

TEST(Workspace, holds_less_than_twice_the_bytes_that_an_operation_of_many_ranks_needs) {
  Workspace workspace;
  use(workspace, 1023, 64 * kib);
  EXPECT_EQ(workspace.spare_bytes(), 1023 * 64 * kib);
  use(workspace, 1023, 33 * kib);  // in the same buffers
  EXPECT_EQ(workspace.spare_bytes(), 1023 * 64 * kib);
}

TEST(Workspace, gives_a_steady_program_the_same_buffers_again) {
  Workspace workspace;
  const auto small = use(workspace, 100, 1000);
  const auto large = use(workspace, 3, 100 * kib);
  const std::size_t bytes = workspace.spare_bytes();
  for (std::size_t step = 0; step < 200; ++step) {
    EXPECT_EQ(use(workspace, 100, 513 + step), small);
    EXPECT_EQ(use(workspace, 3, 100 * kib), large);
  }
  EXPECT_EQ(workspace.spare_bytes(), bytes);
}

TEST(Workspace, keeps_at_most_four_times_the_largest_of_growing_demands) {
  Workspace workspace;
  for (std::size_t bytes = 1; bytes < 1024 * kib; bytes += 3 * kib + 1) {
    use(workspace, 2, bytes);
    EXPECT_LE(workspace.spare_bytes(), 2 * 4 * (bytes + 64));
  }
}

TEST(Workspace, frees_what_was_not_taken_for_a_while) {
  Workspace workspace;
  use(workspace, 1000, 10 * kib);
  use(workspace, 10, 10 * kib);
  use(workspace, 2, 100);
  const std::size_t held = workspace.spare_bytes();
  for (std::size_t i = 0; i < Workspace::least_history / 2; ++i) use(workspace, 1, 100);
  EXPECT_EQ(workspace.spare_bytes(), held);
  // each period frees what the one before has left unused
  for (std::size_t i = 0; i < 2 * (Workspace::least_history + Workspace::history * 1002); ++i) use(workspace, 1, 100);
  EXPECT_EQ(workspace.spare_bytes(), 128U);
}

TEST(Workspace, serves_8192_ranks_in_less_than_a_second) {
  Workspace workspace;
  std::vector<Buffer> buffers(8192);
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 0; step < 4; ++step) {
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) buffers[rank] = workspace.take(64 + rank);
    for (Buffer& buffer : buffers) workspace.give_back(std::move(buffer));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(test::is_quick() ? 20 : 1));
}

TEST(Workspace, refuses_what_no_memory_can_hold) {
  Workspace workspace;
  EXPECT_THROW(static_cast<void>(workspace.take(std::numeric_limits<std::size_t>::max())), std::bad_alloc);
  EXPECT_EQ(workspace.take(0).size(), 0U);
}

}  // namespace
}  // namespace lockstep::test
