// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The layers of the cnn, on planes: an array [channels, n, side, side] holds the n images of a chunk, channel by
// channel. So the convolution of a whole chunk is one product: output[out, n * positions] = weights[out, taps]
// patches[taps, n * positions], taps = in * 5 * 5.

#pragma once

#include <cstdint>

namespace train {

inline constexpr std::int64_t kernel_side = 5;
inline constexpr std::int64_t kernel_taps = kernel_side * kernel_side;

/// The sides of the output images: convolution without padding and with stride 1; pooling by 2.
[[nodiscard]] constexpr std::int64_t convolved(std::int64_t side) { return side - kernel_side + 1; }
[[nodiscard]] constexpr std::int64_t pooled(std::int64_t side) { return side / 2; }

/// patches[channel, dy, dx, image, y, x] = planes[channel, image, y + dy, x + dx].
void gather_patches(const float* planes, std::int64_t channels, std::int64_t n, std::int64_t side, float* patches);
/// The transpose of gather_patches: overwrites each element of `planes` by the sum of the elements of `patches` that it
/// was copied to.
void scatter_patches(const float* patches, std::int64_t channels, std::int64_t n, std::int64_t side, float* planes);

/// output = relu(maximum of each 2 x 2 square + bias of the channel), which is the maximum of relu(x + bias). `side` is
/// the input's, even. `winners` gets the index in `planes` of each maximum, the first of equals.
void pool_and_relu(const float* planes, const float* bias, std::int64_t channels, std::int64_t n, std::int64_t side,
                   float* output, std::int32_t* winners);
/// The gradients of pool_and_relu: those of `output` go to the winners in `d_planes`, all others are 0; `d_bias` gets
/// their sums.
void pool_and_relu_gradients(const float* d_output, const float* output, const std::int32_t* winners,
                             std::int64_t channels, std::int64_t n, std::int64_t side, float* d_planes, float* d_bias);

}  // namespace train
