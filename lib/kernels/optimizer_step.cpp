// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/optimizer_step.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer_step.cpp"

#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls `body(d, i)` for each whole vector, then for each remaining element. Element i is the first element of the
/// vector.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) body(d, i);
  for (; i < count; ++i) body(one, i);
}

void descend_in_vectors(float* HWY_RESTRICT p, const float* HWY_RESTRICT g, std::size_t count, float rate) {
  for_each_vector(count, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::LoadU(d, p + i), hn::Mul(hn::Set(d, rate), hn::LoadU(d, g + i))), d, p + i);
  });
}

void descend_with_momentum_in_vectors(float* HWY_RESTRICT p, float* HWY_RESTRICT m, const float* HWY_RESTRICT g,
                                      std::size_t count, float rate, float momentum) {
  for_each_vector(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto movement =
        hn::Sub(hn::Mul(hn::Set(d, momentum), hn::LoadU(d, m + i)), hn::Mul(hn::Set(d, rate), hn::LoadU(d, g + i)));
    hn::StoreU(movement, d, m + i);
    hn::StoreU(hn::Add(hn::LoadU(d, p + i), movement), d, p + i);
  });
}

/// Updates the moments with the gradients of the vector that begins at element i. Returns the moments in `mean` and
/// `square`, because vectors without a size at compile time cannot be members of a returned object.
template <class D>
HWY_INLINE void adapt_moments_at(D d, std::size_t i, float* HWY_RESTRICT m, float* HWY_RESTRICT v,
                                 const float* HWY_RESTRICT g, float beta_1, float beta_2, hn::Vec<D>& mean,
                                 hn::Vec<D>& square) {
  const auto gradient = hn::LoadU(d, g + i);
  mean = hn::Add(hn::Mul(hn::Set(d, beta_1), hn::LoadU(d, m + i)), hn::Mul(hn::Set(d, 1.0F - beta_1), gradient));
  square = hn::Add(hn::Mul(hn::Set(d, beta_2), hn::LoadU(d, v + i)),
                   hn::Mul(hn::Set(d, 1.0F - beta_2), hn::Mul(gradient, gradient)));
  hn::StoreU(mean, d, m + i);
  hn::StoreU(square, d, v + i);
}

void adapt_in_vectors(float* HWY_RESTRICT p, float* HWY_RESTRICT m, float* HWY_RESTRICT v, const float* HWY_RESTRICT g,
                      std::size_t count, AdamFactors factors) {
  for_each_vector(count, [=](auto d, std::size_t i) HWY_ATTR {
    auto mean = hn::Zero(d);
    auto square = hn::Zero(d);
    adapt_moments_at(d, i, m, v, g, factors.beta_1, factors.beta_2, mean, square);
    const auto step =
        hn::Div(hn::Mul(hn::Set(d, factors.rate), mean), hn::Add(hn::Sqrt(square), hn::Set(d, factors.epsilon)));
    hn::StoreU(hn::Sub(hn::LoadU(d, p + i), step), d, p + i);
  });
}

void adapt_moments_in_vectors(float* HWY_RESTRICT m, float* HWY_RESTRICT v, const float* HWY_RESTRICT g,
                              std::size_t count, float beta_1, float beta_2) {
  for_each_vector(count, [=](auto d, std::size_t i) HWY_ATTR {
    auto mean = hn::Zero(d);
    auto square = hn::Zero(d);
    adapt_moments_at(d, i, m, v, g, beta_1, beta_2, mean, square);
  });
}

void direction_in_vectors(float* HWY_RESTRICT out, const float* HWY_RESTRICT p, const float* HWY_RESTRICT m,
                          const float* HWY_RESTRICT v, std::size_t count, LambFactors factors) {
  for_each_vector(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto mean = hn::Div(hn::LoadU(d, m + i), hn::Set(d, factors.correction_1));
    const auto square = hn::Div(hn::LoadU(d, v + i), hn::Set(d, factors.correction_2));
    const auto step = hn::Div(mean, hn::Add(hn::Sqrt(square), hn::Set(d, factors.epsilon)));
    hn::StoreU(hn::Add(step, hn::Mul(hn::Set(d, factors.weight_decay), hn::LoadU(d, p + i))), d, out + i);
  });
}

}  // namespace lockstep::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(descend_in_vectors);
HWY_EXPORT(descend_with_momentum_in_vectors);
HWY_EXPORT(adapt_in_vectors);
HWY_EXPORT(adapt_moments_in_vectors);
HWY_EXPORT(direction_in_vectors);

void sgd_step(std::span<float> parameter, std::span<const float> gradient, float rate) {
  HWY_DYNAMIC_DISPATCH(descend_in_vectors)(parameter.data(), gradient.data(), parameter.size(), rate);
}

void momentum_step(std::span<float> parameter, std::span<float> movement, std::span<const float> gradient, float rate,
                   float momentum) {
  HWY_DYNAMIC_DISPATCH(descend_with_momentum_in_vectors)
  (parameter.data(), movement.data(), gradient.data(), parameter.size(), rate, momentum);
}

void adam_step(std::span<float> parameter, std::span<float> mean, std::span<float> square,
               std::span<const float> gradient, const AdamFactors& factors) {
  HWY_DYNAMIC_DISPATCH(adapt_in_vectors)
  (parameter.data(), mean.data(), square.data(), gradient.data(), parameter.size(), factors);
}

void adam_moments(std::span<float> mean, std::span<float> square, std::span<const float> gradient, float beta_1,
                  float beta_2) {
  HWY_DYNAMIC_DISPATCH(adapt_moments_in_vectors)
  (mean.data(), square.data(), gradient.data(), mean.size(), beta_1, beta_2);
}

void lamb_direction(std::span<float> out, std::span<const float> parameter, std::span<const float> mean,
                    std::span<const float> square, const LambFactors& factors) {
  HWY_DYNAMIC_DISPATCH(direction_in_vectors)
  (out.data(), parameter.data(), mean.data(), square.data(), out.size(), factors);
}

}  // namespace lockstep::detail
#endif
