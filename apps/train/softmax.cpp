// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/softmax.hpp"

#include "train/model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace train {

double softmax_cross_entropy(float* logits, const std::uint8_t* labels, std::int64_t n, float scale) {
  double loss = 0;
  for (std::int64_t row = 0; row < n; ++row, logits += num_classes) {
    const float largest = *std::max_element(logits, logits + num_classes);
    const float at_label = logits[labels[row]] - largest;
    float total = 0;
    for (std::int64_t i = 0; i < num_classes; ++i) {
      logits[i] = std::exp(logits[i] - largest);
      total += logits[i];
    }
    loss += std::log(static_cast<double>(total)) - static_cast<double>(at_label);
    const float factor = scale / total;
    for (std::int64_t i = 0; i < num_classes; ++i) logits[i] *= factor;
    logits[labels[row]] -= scale;
  }
  return loss;
}

std::int64_t count_correct(const float* logits, const std::uint8_t* labels, std::int64_t n) {
  std::int64_t correct = 0;
  for (std::int64_t row = 0; row < n; ++row, logits += num_classes) {
    if (std::max_element(logits, logits + num_classes) - logits == labels[row]) ++correct;
  }
  return correct;
}

}  // namespace train
