// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/xxh64.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::detail {
namespace {

std::uint64_t hash_of(std::string_view text) { return xxh64(std::as_bytes(std::span(text))); }

TEST(Xxh64, gives_the_published_values) {
  EXPECT_EQ(hash_of(""), 0xef46db3751d8e999u);
  EXPECT_EQ(hash_of("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(hash_of("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(hash_of("message digest"), 0x066ed728fceeb3beu);
  EXPECT_EQ(hash_of("abcdefghijklmnopqrstuvwxyz0123456789"), 0x64f23ecf1609b766u);
}

TEST(Xxh64, changes_with_every_bit_and_with_the_length) {
  for (std::size_t size = 1; size < 100; ++size) {
    std::vector<std::byte> bytes(size);
    const std::uint64_t hash = xxh64(bytes);
    EXPECT_NE(hash, xxh64(std::span(bytes).first(size - 1)));
    for (std::size_t at = 0; at < size; ++at) {
      bytes[at] = std::byte{16};
      EXPECT_NE(hash, xxh64(bytes)) << at << " of " << size;
      bytes[at] = std::byte{0};
    }
  }
}

}  // namespace
}  // namespace lockstep::detail
