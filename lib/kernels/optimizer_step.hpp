// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The elementwise steps of optimizers, in one pass. The results are bitwise equal on all targets, because products and
// sums are not fused, and no element depends on its neighbours.

#pragma once

#include <span>

namespace lockstep::detail {

// The spans of one call must have the same length and must not overlap; any alignment is allowed. Thread-safety: any
// thread.

/// Gradient descent: p -= rate * g.
void sgd_step(std::span<float> parameter, std::span<const float> gradient, float rate);

/// Gradient descent with momentum: m = momentum * m - rate * g, then p += m.
void momentum_step(std::span<float> parameter, std::span<float> movement, std::span<const float> gradient, float rate,
                   float momentum);

struct AdamFactors {
  float rate;
  float beta_1;
  float beta_2;
  float epsilon;
};
/// Adam: m = beta_1 * m + (1 - beta_1) * g and v = beta_2 * v + (1 - beta_2) * g^2, then p -= rate * m / (sqrt(v) +
/// epsilon).
void adam_step(std::span<float> parameter, std::span<float> mean, std::span<float> square,
               std::span<const float> gradient, const AdamFactors& factors);

/// Only the moments of Adam: m = beta_1 * m + (1 - beta_1) * g and v = beta_2 * v + (1 - beta_2) * g^2.
void adam_moments(std::span<float> mean, std::span<float> square, std::span<const float> gradient, float beta_1,
                  float beta_2);

struct LambFactors {
  float correction_1;
  float correction_2;
  float epsilon;
  float weight_decay;
};
/// The direction of LAMB: out = (m / correction_1) / (sqrt(v / correction_2) + epsilon) + weight_decay * p.
void lamb_direction(std::span<float> out, std::span<const float> parameter, std::span<const float> mean,
                    std::span<const float> square, const LambFactors& factors);

}  // namespace lockstep::detail
