// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/clip.hpp>

#include "base/check.hpp"
#include "training/norm.hpp"

#include <cmath>
#include <limits>

namespace lockstep {

double global_norm(std::span<const std::span<float>> gradients) {
  detail::SquareSum sum;
  for (const std::span<float> gradient : gradients) sum.add(gradient);
  return std::sqrt(sum.total());
}

double clip_by_global_norm(std::span<const std::span<float>> gradients, float clip_norm) {
  if (!(clip_norm > 0.0F && std::isfinite(clip_norm))) {
    detail::throw_error(Code::invalid_argument, "clip_by_global_norm: clip_norm is {}; it must be positive and finite",
                        clip_norm);
  }
  const double norm = global_norm(gradients);
  if (norm <= double{clip_norm}) return norm;
  const float factor =
      std::isfinite(norm) ? static_cast<float>(double{clip_norm} / norm) : std::numeric_limits<float>::quiet_NaN();
  for (const std::span<float> gradient : gradients) {
    for (float& x : gradient) x *= factor;
  }
  return norm;
}

}  // namespace lockstep
