// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The bodies of the kernels of optimizers, executed on the host by simulated GPU threads.

#include "kernels/optimizer_step.hpp"
#include "support/run_on_host.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <vector>

namespace lockstep::detail::cuda {
namespace {

/// Four arrays, each at its own distance from the start of its allocation, and elements around them.
struct OptimizerState {
  OptimizerState(std::size_t number, const std::vector<std::size_t>& distances) : count(number), firsts(distances) {
    std::mt19937 random(static_cast<unsigned>(number) + 1);
    for (std::vector<float>& array : arrays) {
      array.resize(count + 16);
      for (float& x : array) x = std::ldexp(static_cast<float>(random()), static_cast<int>(random() % 40) - 52) - 0.01F;
    }
    for (float& x : arrays[2]) x = std::abs(x);  // means of squares
  }
  [[nodiscard]] std::span<float> operator[](std::size_t array) {
    return std::span(arrays[array]).subspan(firsts[array], count);
  }
  [[nodiscard]] std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> all;
    for (const std::vector<float>& array : arrays) {
      for (const float x : array) all.push_back(std::bit_cast<std::uint32_t>(x));
    }
    return all;
  }

  std::size_t count;
  std::vector<std::size_t> firsts;
  std::vector<float> arrays[4];
};

void expect_same_steps(const std::function<void(OptimizerState&)>& on_gpu,
                       const std::function<void(OptimizerState&)>& on_host) {
  const std::vector<std::size_t> all_distances[]{{0, 0, 0, 0}, {1, 1, 1, 1}, {7, 3, 3, 7}, {0, 1, 2, 3}};
  for (const std::vector<std::size_t>& distances : all_distances) {
    for (const std::size_t count :
         std::initializer_list<std::size_t>{0, 1, 2, 3, 4, 5, 70, 1023, 1024, 1025, 1030, 5000, 20'001}) {
      OptimizerState got(count, distances);
      OptimizerState expected(count, distances);
      on_gpu(got);
      on_host(expected);
      ASSERT_EQ(got.bits(), expected.bits()) << count << " elements";
    }
  }
}

constexpr AdamFactors adam_factors{.rate = 0.013F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F};
constexpr LambFactors lamb_factors{
    .correction_1 = 0.1F, .correction_2 = 0.001F, .epsilon = 1e-6F, .weight_decay = 0.01F};

TEST(GpuOptimizerStep, gives_the_bits_of_the_host) {
  expect_same_steps([](OptimizerState& a) { sgd_step_on_host(a[0], a[3], 0.013F); },
                    [](OptimizerState& a) { detail::sgd_step(a[0], a[3], 0.013F); });
}

TEST(GpuOptimizerStep, with_momentum_gives_the_bits_of_the_host) {
  expect_same_steps([](OptimizerState& a) { momentum_step_on_host(a[0], a[1], a[3], 0.013F, 0.9F); },
                    [](OptimizerState& a) { momentum_step(a[0], a[1], a[3], 0.013F, 0.9F); });
}

TEST(GpuOptimizerStep, of_adam_gives_the_bits_of_the_host) {
  expect_same_steps([](OptimizerState& a) { adam_step_on_host(a[0], a[1], a[2], a[3], adam_factors); },
                    [](OptimizerState& a) { adam_step(a[0], a[1], a[2], a[3], adam_factors); });
}

TEST(GpuOptimizerStep, of_adams_moments_alone_gives_the_bits_of_the_host) {
  expect_same_steps([](OptimizerState& a) { adam_moments_on_host(a[1], a[2], a[3], 0.9F, 0.999F); },
                    [](OptimizerState& a) { adam_moments(a[1], a[2], a[3], 0.9F, 0.999F); });
}

TEST(GpuOptimizerStep, of_lamb_gives_the_bits_of_the_host) {
  expect_same_steps([](OptimizerState& a) { lamb_direction_on_host(a[3], a[0], a[1], a[2], lamb_factors); },
                    [](OptimizerState& a) { lamb_direction(a[3], a[0], a[1], a[2], lamb_factors); });
}

}  // namespace
}  // namespace lockstep::detail::cuda
