// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/convolution.hpp"

#include <algorithm>

namespace train {
namespace {

/// Calls row(plane_row, patch_row) with the offsets of all pairs of rows of convolved(side) elements that a convolution
/// combines.
template <class Row>
void for_each_patch_row(std::int64_t channels, std::int64_t n, std::int64_t side, Row&& row) {
  const std::int64_t positions = convolved(side);
  std::int64_t patch_row = 0;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t tap = 0; tap < kernel_taps; ++tap) {
      for (std::int64_t image = 0; image < n; ++image) {
        std::int64_t plane_row = ((channel * n + image) * side + tap / kernel_side) * side + tap % kernel_side;
        for (std::int64_t y = 0; y < positions; ++y, plane_row += side, patch_row += positions)
          row(plane_row, patch_row);
      }
    }
  }
}

/// The first of equals; if one is not a number, the second. In this form, one instruction.
float larger(float first, float second) { return first > second ? first : second; }

}  // namespace

void gather_patches(const float* planes, std::int64_t channels, std::int64_t n, std::int64_t side, float* patches) {
  for_each_patch_row(channels, n, side, [&](std::int64_t plane_row, std::int64_t patch_row) {
    std::copy_n(planes + plane_row, convolved(side), patches + patch_row);
  });
}

void scatter_patches(const float* patches, std::int64_t channels, std::int64_t n, std::int64_t side, float* planes) {
  std::fill_n(planes, channels * n * side * side, 0.0F);
  for_each_patch_row(channels, n, side, [&](std::int64_t plane_row, std::int64_t patch_row) {
    for (std::int64_t x = 0; x < convolved(side); ++x) planes[plane_row + x] += patches[patch_row + x];
  });
}

void pool_and_relu(const float* planes, const float* bias, std::int64_t channels, std::int64_t n, std::int64_t side,
                   float* output, std::int32_t* winners) {
  const float* square = planes;
  const auto below = static_cast<std::int32_t>(side);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    // The images of a channel are contiguous, and `side` is even: their squares need no loop over images.
    for (std::int64_t y = 0; y < n * pooled(side); ++y, square += side) {
      for (std::int64_t x = 0; x < pooled(side); ++x, square += 2) {
        // Arithmetic rather than branches: a CPU cannot predict which element wins.
        const float top = larger(square[0], square[1]);
        const float bottom = larger(square[side], square[side + 1]);
        const std::int32_t top_winner = square[1] > square[0];
        const std::int32_t bottom_winner = below + (square[side + 1] > square[side]);
        const std::int32_t is_bottom = bottom > top;
        *winners++ = static_cast<std::int32_t>(square - planes) + top_winner + is_bottom * (bottom_winner - top_winner);
        *output++ = larger(0.0F, larger(top, bottom) + bias[channel]);
      }
    }
  }
}

void pool_and_relu_gradients(const float* d_output, const float* output, const std::int32_t* winners,
                             std::int64_t channels, std::int64_t n, std::int64_t side, float* d_planes, float* d_bias) {
  std::fill_n(d_planes, channels * n * side * side, 0.0F);
  const std::int64_t squares = n * pooled(side) * pooled(side);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    float sum = 0;
    for (std::int64_t i = 0; i < squares; ++i) {
      const float gradient = *output++ <= 0 ? 0 : *d_output;
      ++d_output;
      d_planes[*winners++] = gradient;
      sum += gradient;
    }
    d_bias[channel] = sum;
  }
}

}  // namespace train
