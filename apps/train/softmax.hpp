// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The loss of every model, after its last layer. `logits` is [n, num_classes], and each of the n labels is below
// num_classes.

#pragma once

#include <cstdint>

namespace train {

/// Replaces the logits by the gradients of `scale` * (summed cross-entropy) with respect to them, and returns the
/// summed cross-entropy.
[[nodiscard]] double softmax_cross_entropy(float* logits, const std::uint8_t* labels, std::int64_t n, float scale);

/// The number of rows whose largest logit, the first of equals, is that of their label.
[[nodiscard]] std::int64_t count_correct(const float* logits, const std::uint8_t* labels, std::int64_t n);

}  // namespace train
