// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "base/never_destroyed.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep::detail {
namespace {

struct Counted {
  ~Counted() { ++destroyed; }
  int value = 7;
  static inline int destroyed = 0;
};

TEST(NeverDestroyed, holds_its_value_in_its_own_memory) {
  NeverDestroyed<Counted> counted;
  EXPECT_EQ(counted->value, 7);
  const auto distance = reinterpret_cast<std::uintptr_t>(&*counted) - reinterpret_cast<std::uintptr_t>(&counted);
  EXPECT_LT(distance, sizeof(counted));
}

TEST(NeverDestroyed, does_not_destroy_its_value) {
  { NeverDestroyed<Counted> counted; }
  EXPECT_EQ(Counted::destroyed, 0);
}

TEST(NeverDestroyed, throws_only_if_its_value_does) {
  struct Throws {
    Throws() noexcept(false) {}
  };
  EXPECT_TRUE(std::is_nothrow_default_constructible_v<NeverDestroyed<Counted>>);
  EXPECT_FALSE(std::is_nothrow_default_constructible_v<NeverDestroyed<Throws>>);
}

}  // namespace
}  // namespace lockstep::detail
