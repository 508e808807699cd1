// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/optimizer_step.hpp"

#include "kernels/target.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

namespace lockstep::detail {
namespace {

/// Arrays with margins at both ends that must not be modified.
struct Arrays {
  static constexpr std::size_t margin = 3;  // odd, so that addresses are misaligned

  explicit Arrays(std::size_t count) : count_(count) {
    std::mt19937 random(static_cast<unsigned>(count + 1));
    for (auto* array : {&parameter, &first, &second, &gradient}) {
      array->resize(count + 2 * margin);
      for (float& x : *array) x = std::ldexp(static_cast<float>(random()), -31) - 1;
    }
    for (float& x : second) x = std::abs(x);
  }
  [[nodiscard]] std::span<float> part(std::vector<float>& array) const {
    return std::span(array).subspan(margin, count_);
  }
  friend bool operator==(const Arrays&, const Arrays&) = default;

  std::vector<float> parameter, first, second, gradient;

 private:
  std::size_t count_;
};

/// On every target, and for every number of elements, `in_vectors` gives the bits of `one` applied to each element.
void expect_same(const std::function<void(Arrays&)>& in_vectors,
                 const std::function<void(float& p, float& m, float& v, float g)>& one) {
  for (const std::string_view target : kernel_targets()) {
    const ForcedKernelTarget forced(target);
    for (std::size_t count = 0; count < 70; ++count) {
      Arrays expected(count);
      for (std::size_t i = Arrays::margin; i < count + Arrays::margin; ++i)
        one(expected.parameter[i], expected.first[i], expected.second[i], expected.gradient[i]);
      Arrays arrays(count);
      in_vectors(arrays);
      ASSERT_EQ(arrays, expected) << target << ", " << count << " elements";
    }
  }
}

constexpr float rate = 0.013F;
constexpr float momentum = 0.9F;
constexpr LambFactors lamb_factors{
    .correction_1 = 0.1F, .correction_2 = 0.001F, .epsilon = 1e-6F, .weight_decay = 0.01F};
constexpr AdamFactors factors{.rate = rate, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F};

TEST(OptimizerStep, gives_the_bits_of_the_scalar_formula) {
  expect_same([](Arrays& a) { sgd_step(a.part(a.parameter), a.part(a.gradient), rate); },
              [](float& p, float&, float&, float g) { p -= rate * g; });
}

TEST(OptimizerStep, with_momentum_gives_the_bits_of_the_scalar_formula) {
  expect_same(
      [](Arrays& a) { momentum_step(a.part(a.parameter), a.part(a.first), a.part(a.gradient), rate, momentum); },
      [](float& p, float& m, float&, float g) {
        m = momentum * m - rate * g;
        p += m;
      });
}

TEST(OptimizerStep, of_adam_gives_the_bits_of_the_scalar_formula) {
  expect_same(
      [](Arrays& a) { adam_step(a.part(a.parameter), a.part(a.first), a.part(a.second), a.part(a.gradient), factors); },
      [](float& p, float& m, float& v, float g) {
        m = factors.beta_1 * m + (1.0F - factors.beta_1) * g;
        v = factors.beta_2 * v + (1.0F - factors.beta_2) * (g * g);
        p -= factors.rate * m / (std::sqrt(v) + factors.epsilon);
      });
}

TEST(OptimizerStep, of_adams_moments_alone_gives_the_bits_of_the_scalar_formula) {
  expect_same(
      [](Arrays& a) {
        adam_moments(a.part(a.first), a.part(a.second), a.part(a.gradient), factors.beta_1, factors.beta_2);
      },
      [](float&, float& m, float& v, float g) {
        m = factors.beta_1 * m + (1.0F - factors.beta_1) * g;
        v = factors.beta_2 * v + (1.0F - factors.beta_2) * (g * g);
      });
}

TEST(OptimizerStep, of_lamb_gives_the_bits_of_the_scalar_formula) {
  expect_same(
      [&](Arrays& a) {
        const std::vector<float> previous = a.parameter;  // the output must not overlap the inputs
        const auto p = std::span(previous).subspan(Arrays::margin, a.part(a.parameter).size());
        lamb_direction(a.part(a.parameter), p, a.part(a.first), a.part(a.second), lamb_factors);
      },
      [](float& p, float& m, float& v, float) {
        p = m / lamb_factors.correction_1 / (std::sqrt(v / lamb_factors.correction_2) + lamb_factors.epsilon) +
            lamb_factors.weight_decay * p;
      });
}

}  // namespace
}  // namespace lockstep::detail
