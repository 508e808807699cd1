// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The computations besides matrix products, for one element or row each: plain C++ for both CUDA's and the host's
// compiler, so that tests run the code of the kernels. Arrays are dense and row-major.

#pragma once

#include <cmath>
#include <cstdint>

// Only CUDA's compiler needs the attributes.
#ifdef __CUDACC__
#define TRAIN_DEVICE __device__
#else
#define TRAIN_DEVICE
#endif

namespace train::gpu {

/// Each element of [rows, columns]: x = relu(x + bias of its column). A NaN stays a NaN, so that the loss shows it.
struct AddBiasAndRelu {
  float* elements;
  const float* bias;
  std::int64_t columns;

  TRAIN_DEVICE void operator()(std::int64_t i) const {
    const float x = elements[i] + bias[i % columns];
    elements[i] = x < 0 ? 0 : x;
  }
};

/// Each element: zeroes the gradient if the output of ReLU is 0.
struct ReluGradients {
  float* gradients;
  const float* activations;

  TRAIN_DEVICE void operator()(std::int64_t i) const {
    if (activations[i] <= 0) gradients[i] = 0;
  }
};

/// Each row of [n, classes]: replaces the products, which do not yet include the bias, by the gradients of `scale` *
/// cross-entropy, and stores the cross-entropy.
struct SoftmaxCrossEntropy {
  float* products;
  const float* bias;
  const std::uint8_t* labels;
  std::int64_t classes;
  float scale;
  double* losses;

  TRAIN_DEVICE void operator()(std::int64_t row) const {
    float* const logits = products + row * classes;
    float largest = 0;
    for (std::int64_t i = 0; i < classes; ++i) {
      logits[i] += bias[i];
      if (i == 0 || logits[i] > largest) largest = logits[i];
    }
    const float at_label = logits[labels[row]] - largest;
    float total = 0;
    for (std::int64_t i = 0; i < classes; ++i) {
      logits[i] = std::exp(logits[i] - largest);
      total += logits[i];
    }
    losses[row] = std::log(static_cast<double>(total)) - static_cast<double>(at_label);
    const float factor = scale / total;
    for (std::int64_t i = 0; i < classes; ++i) logits[i] *= factor;
    logits[labels[row]] -= scale;
  }
};

/// Each row of [n, classes]: 1 if the largest of products + bias (the first of equals) is that of the label, else 0.
struct MarkCorrect {
  const float* products;
  const float* bias;
  const std::uint8_t* labels;
  std::int64_t classes;
  double* marks;

  TRAIN_DEVICE void operator()(std::int64_t row) const {
    const float* const logits = products + row * classes;
    std::int64_t found = 0;
    for (std::int64_t i = 1; i < classes; ++i) {
      if (logits[i] + bias[i] > logits[found] + bias[found]) found = i;
    }
    marks[row] = found == labels[row] ? 1 : 0;
  }
};

/// Each element of [sums, columns]: the sum of up to `rows_at_a_time` consecutive rows of [rows, columns], added in
/// order.
template <class T>
struct SumRows {
  const T* source;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t rows_at_a_time;
  T* target;

  TRAIN_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t begin = i / columns * rows_at_a_time;
    const std::int64_t end = rows - begin < rows_at_a_time ? rows : begin + rows_at_a_time;
    T sum = 0;
    for (std::int64_t row = begin; row < end; ++row) sum += source[row * columns + i % columns];
    target[i] = sum;
  }
};

}  // namespace train::gpu

#undef TRAIN_DEVICE
