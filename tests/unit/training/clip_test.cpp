// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/clip.hpp>

#include "support/expect_error.hpp"
#include "training/norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::test {
namespace {

TEST(ClipByGlobalNorm, scales_all_gradients_by_one_factor) {
  std::vector<float> a{3, 0};
  std::vector<float> b{0, 4, 12};
  const std::vector<std::span<float>> gradients{a, b};
  EXPECT_EQ(global_norm(gradients), 13.0);
  EXPECT_EQ(clip_by_global_norm(gradients, 6.5F), 13.0);
  EXPECT_EQ(a, (std::vector<float>{1.5F, 0}));
  EXPECT_EQ(b, (std::vector<float>{0, 2, 6}));
}

TEST(ClipByGlobalNorm, leaves_short_gradients_alone) {
  std::vector<float> a{3, 4};
  EXPECT_EQ(clip_by_global_norm(std::vector<std::span<float>>{a}, 5.0F), 5.0);
  EXPECT_EQ(a, (std::vector<float>{3, 4}));
  EXPECT_EQ(clip_by_global_norm({}, 5.0F), 0.0);
}

TEST(ClipByGlobalNorm, makes_all_elements_NaN_if_the_norm_is_not_finite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> a{1, bad};
    std::vector<float> b{2};
    EXPECT_FALSE(std::isfinite(clip_by_global_norm(std::vector<std::span<float>>{a, b}, 5.0F)));
    EXPECT_TRUE(std::isnan(a[0]) && std::isnan(a[1]) && std::isnan(b[0]));
  }
}

TEST(ClipByGlobalNorm, refuses_a_norm_that_cannot_be) {
  std::vector<float> a{1};
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::infinity()}) {
    expect_error(Code::invalid_argument, {"clip_by_global_norm", "positive and finite"},
                 [&] { (void)clip_by_global_norm(std::vector<std::span<float>>{a}, bad); });
  }
}

TEST(SquareSum, does_not_depend_on_how_elements_are_cut) {
  std::vector<float> elements(1000);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = std::sin(static_cast<float>(i)) * std::pow(10.0F, static_cast<float>(i % 9));
  detail::SquareSum whole;
  whole.add(elements);
  for (const std::size_t cut : {std::size_t{1}, std::size_t{3}, std::size_t{8}, std::size_t{21}}) {
    detail::SquareSum pieces;
    for (std::size_t i = 0; i < elements.size(); i += cut)
      pieces.add(std::span(elements).subspan(i, std::min(cut, elements.size() - i)));
    EXPECT_EQ(pieces.total(), whole.total()) << cut;
  }
}

}  // namespace
}  // namespace lockstep::test
