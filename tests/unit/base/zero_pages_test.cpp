// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/zero_pages.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

namespace lockstep::detail {
namespace {

TEST(ZeroPages, AreZeroEvenWhereMemoryWasUsedBefore) {
  constexpr std::size_t bytes = 1 << 20;
  for (int time = 0; time < 2; ++time) {
    const ZeroPages pages(bytes);
    ASSERT_EQ(pages.size(), bytes);
    EXPECT_TRUE(std::all_of(pages.data(), pages.data() + bytes, [](std::byte each) { return each == std::byte{0}; }));
    std::fill(pages.data(), pages.data() + bytes, std::byte{0xff});
  }
}

TEST(ZeroPages, BecomeResidentWhenTheyAreUsed) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const ZeroPages pages(64 * page);
  std::vector<unsigned char> residence(64);
  pages.data()[10 * page] = std::byte{1};
  ASSERT_EQ(mincore(pages.data(), pages.size(), residence.data()), 0);
  EXPECT_EQ(std::count_if(residence.begin(), residence.end(), [](unsigned char each) { return (each & 1) != 0; }), 1);
}

TEST(ZeroPages, NoBytesAndTooManyBytes) {
  EXPECT_EQ(ZeroPages(0).data(), nullptr);
  EXPECT_THROW(ZeroPages(std::numeric_limits<std::size_t>::max() / 2), std::bad_alloc);
}

}  // namespace
}  // namespace lockstep::detail
