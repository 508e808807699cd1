// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/mlp.hpp"

#include "train/gemm.hpp"
#include "train/scratch.hpp"
#include "train/softmax.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace train {
namespace {

/// Rows of [n, hidden_units]: x = relu(x + bias). A NaN stays a NaN, so that the loss shows it.
void add_bias_and_relu(float* __restrict rows, const float* __restrict bias, std::int64_t n) {
  for (std::int64_t row = 0; row < n; ++row, rows += hidden_units) {
    for (std::int64_t i = 0; i < hidden_units; ++i) {
      const float x = rows[i] + bias[i];
      rows[i] = x < 0 ? 0 : x;
    }
  }
}

/// Zeroes the gradients of outputs that are 0, and sums the gradients over the rows.
void relu_gradients(float* __restrict gradients, const float* __restrict activations, std::int64_t n,
                    float* __restrict sum) {
  std::fill_n(sum, hidden_units, 0.0F);
  for (std::int64_t row = 0; row < n; ++row, gradients += hidden_units, activations += hidden_units) {
    for (std::int64_t i = 0; i < hidden_units; ++i) {
      const float gradient = activations[i] <= 0 ? 0 : gradients[i];
      gradients[i] = gradient;
      sum[i] += gradient;
    }
  }
}

class Mlp final : public Model {
 public:
  std::span<const ParameterSpec> parameters() const override { return specs_; }

  double loss_and_gradients(std::span<const float* const> parameters, const float* images, const std::uint8_t* labels,
                            std::int64_t n, float scale, std::span<float* const> gradients,
                            const GradientsReady& ready) override {
    float* hidden = hidden_.at_least(n * hidden_units);
    float* d_hidden = d_hidden_.at_least(n * hidden_units);
    float* logits = logits_.at_least(n * num_classes);
    forward(parameters, images, n, hidden, logits);

    const double loss = softmax_cross_entropy(logits, labels, n, scale);
    const float* d_logits = logits;
    std::fill_n(gradients[output_bias], num_classes, 0.0F);
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t i = 0; i < num_classes; ++i) gradients[output_bias][i] += d_logits[row * num_classes + i];
    }
    ready(output_bias);
    gemm(hidden_units, num_classes, n, transposed(hidden), plain(d_logits), gradients[output_weights]);
    ready(output_weights);

    gemm(n, hidden_units, num_classes, plain(d_logits), transposed(parameters[output_weights]), d_hidden);
    relu_gradients(d_hidden, hidden, n, gradients[hidden_bias]);
    ready(hidden_bias);
    gemm(image_pixels, hidden_units, n, transposed(images), plain(d_hidden), gradients[hidden_weights]);
    ready(hidden_weights);
    return loss;
  }

  std::int64_t correct(std::span<const float* const> parameters, const float* images, const std::uint8_t* labels,
                       std::int64_t n) override {
    constexpr std::int64_t rows_at_a_time = 256;
    float* hidden = hidden_.at_least(rows_at_a_time * hidden_units);
    float* logits = logits_.at_least(rows_at_a_time * num_classes);
    std::int64_t correct = 0;
    for (std::int64_t row = 0; row < n; row += rows_at_a_time) {
      const std::int64_t rows = std::min(rows_at_a_time, n - row);
      forward(parameters, images + row * image_pixels, rows, hidden, logits);
      correct += count_correct(logits, labels + row, rows);
    }
    return correct;
  }

 private:
  static void forward(std::span<const float* const> parameters, const float* images, std::int64_t n, float* hidden,
                      float* logits) {
    gemm(n, hidden_units, image_pixels, plain(images), plain(parameters[hidden_weights]), hidden);
    add_bias_and_relu(hidden, parameters[hidden_bias], n);
    for (std::int64_t row = 0; row < n; ++row)
      std::copy_n(parameters[output_bias], num_classes, logits + row * num_classes);
    gemm(n, num_classes, hidden_units, plain(hidden), plain(parameters[output_weights]), logits, Output::accumulate);
  }

  const MlpParameters specs_ = mlp_parameters();
  Scratch<float> hidden_;
  Scratch<float> d_hidden_;
  Scratch<float> logits_;
};

}  // namespace

std::unique_ptr<Model> make_mlp() { return std::make_unique<Mlp>(); }

}  // namespace train
