// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// 28 x 28 -> convolution 5 x 5 to 8 channels of 24 x 24 -> pooling to 12 x 12 -> convolution 5 x 5 to 16 channels of 8
// x 8 -> pooling to 4 x 4 -> dense to 10. A chunk of images passes forward and backward before the next one, so that
// its patches stay in the caches.

#include "train/convolution.hpp"
#include "train/gemm.hpp"
#include "train/model.hpp"
#include "train/scratch.hpp"
#include "train/softmax.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace train {
namespace {

constexpr std::int64_t images_at_a_time = 8;

/// One convolution with its pooling.
struct Stage {
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t in_side;

  [[nodiscard]] constexpr std::int64_t taps() const { return in_channels * kernel_taps; }
  [[nodiscard]] constexpr std::int64_t middle_side() const { return convolved(in_side); }
  [[nodiscard]] constexpr std::int64_t positions() const { return middle_side() * middle_side(); }
  [[nodiscard]] constexpr std::int64_t out_side() const { return pooled(middle_side()); }
  [[nodiscard]] constexpr std::int64_t out_elements() const { return out_channels * out_side() * out_side(); }
};
constexpr Stage first{1, 8, image_side};
constexpr Stage second{first.out_channels, 16, first.out_side()};
constexpr std::int64_t features = second.out_elements();
static_assert(first.middle_side() % 2 == 0 && second.middle_side() % 2 == 0 && features == 256);

/// The intermediate results of one stage for one chunk, kept for the gradients.
class StageBuffers {
 public:
  explicit StageBuffers(const Stage& stage)
      : stage_(stage),
        patches_(scratch_patches_.at_least(images_at_a_time * stage.taps() * stage.positions())),
        convolved_(scratch_convolved_.at_least(images_at_a_time * stage.out_channels * stage.positions())),
        output_(scratch_output_.at_least(images_at_a_time * stage.out_elements())),
        winners_(scratch_winners_.at_least(images_at_a_time * stage.out_elements())) {}

  /// `planes` is [in_channels, n, in_side, in_side]; returns [out_channels, n, out_side, out_side], which is valid
  /// until the next call.
  const float* forward(const float* planes, std::int64_t n, const float* weights, const float* bias) {
    gather_patches(planes, stage_.in_channels, n, stage_.in_side, patches_);
    gemm(stage_.out_channels, n * stage_.positions(), stage_.taps(), plain(weights), plain(patches_), convolved_);
    pool_and_relu(convolved_, bias, stage_.out_channels, n, stage_.middle_side(), output_, winners_);
    return output_;
  }

  /// Adds the gradients of the last `forward`, with the same n, to those of weights and bias.
  void add_gradients(const float* d_output, std::int64_t n, float* d_weights, float* d_bias) {
    std::array<float, 16> chunk_d_bias;
    pool_and_relu_gradients(d_output, output_, winners_, stage_.out_channels, n, stage_.middle_side(), convolved_,
                            chunk_d_bias.data());
    for (std::int64_t i = 0; i < stage_.out_channels; ++i) d_bias[i] += chunk_d_bias[static_cast<std::size_t>(i)];
    gemm(stage_.out_channels, stage_.taps(), n * stage_.positions(), plain(convolved_), transposed(patches_), d_weights,
         Output::accumulate);
  }

  /// The gradients with respect to `planes`, after `add_gradients`; overwrites the patches.
  void input_gradients(std::int64_t n, const float* weights, float* d_planes) {
    gemm(stage_.taps(), n * stage_.positions(), stage_.out_channels, transposed(weights), plain(convolved_), patches_);
    scatter_patches(patches_, stage_.in_channels, n, stage_.in_side, d_planes);
  }

 private:
  Stage stage_;
  Scratch<float> scratch_patches_;
  Scratch<float> scratch_convolved_;
  Scratch<float> scratch_output_;
  Scratch<std::int32_t> scratch_winners_;
  float* patches_;
  float* convolved_;  // then its gradients
  float* output_;
  std::int32_t* winners_;
};
static_assert(first.out_channels <= 16 && second.out_channels <= 16, "the size of chunk_d_bias");

/// [channels, n, positions] to [n, channels, positions], or back with n and channels exchanged.
void exchange_leading_axes(const float* source, std::int64_t channels, std::int64_t n, std::int64_t positions,
                           float* target) {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t image = 0; image < n; ++image, source += positions) {
      std::copy_n(source, positions, target + (image * channels + channel) * positions);
    }
  }
}

enum CnnParameter : std::size_t { weights1, bias1, weights2, bias2, dense_weights, dense_bias };

class Cnn final : public Model {
 public:
  std::span<const ParameterSpec> parameters() const override { return specs_; }

  double loss_and_gradients(std::span<const float* const> parameters, const float* images, const std::uint8_t* labels,
                            std::int64_t n, float scale, std::span<float* const> gradients,
                            const GradientsReady& ready) override {
    for (std::size_t i = 0; i < specs_.size(); ++i) std::fill_n(gradients[i], specs_[i].element_count(), 0.0F);
    double loss = 0;
    for (std::int64_t row = 0; row < n; row += images_at_a_time) {
      const std::int64_t rows = std::min(images_at_a_time, n - row);
      forward(parameters, images + row * image_pixels, rows);
      loss += softmax_cross_entropy(logits_, labels + row, rows, scale);
      backward(parameters, rows, gradients);
    }
    for (std::size_t i = specs_.size(); i-- > 0;) ready(i);  // every chunk of images adds to all
    return loss;
  }

  std::int64_t correct(std::span<const float* const> parameters, const float* images, const std::uint8_t* labels,
                       std::int64_t n) override {
    std::int64_t correct = 0;
    for (std::int64_t row = 0; row < n; row += images_at_a_time) {
      const std::int64_t rows = std::min(images_at_a_time, n - row);
      forward(parameters, images + row * image_pixels, rows);
      correct += count_correct(logits_, labels + row, rows);
    }
    return correct;
  }

 private:
  static constexpr std::int64_t out_positions = second.out_side() * second.out_side();

  void forward(std::span<const float* const> parameters, const float* images, std::int64_t n) {
    const float* middle = first_.forward(images, n, parameters[weights1], parameters[bias1]);
    const float* last = second_.forward(middle, n, parameters[weights2], parameters[bias2]);
    exchange_leading_axes(last, second.out_channels, n, out_positions, features_);
    for (std::int64_t row = 0; row < n; ++row)
      std::copy_n(parameters[dense_bias], num_classes, logits_ + row * num_classes);
    gemm(n, num_classes, features, plain(features_), plain(parameters[dense_weights]), logits_, Output::accumulate);
  }

  /// Adds the gradients of the chunk, whose logits have been replaced by their gradients.
  void backward(std::span<const float* const> parameters, std::int64_t n, std::span<float* const> gradients) {
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t i = 0; i < num_classes; ++i) gradients[dense_bias][i] += logits_[row * num_classes + i];
    }
    gemm(features, num_classes, n, transposed(features_), plain(logits_), gradients[dense_weights], Output::accumulate);
    gemm(n, features, num_classes, plain(logits_), transposed(parameters[dense_weights]), features_);

    exchange_leading_axes(features_, n, second.out_channels, out_positions, d_output_);
    second_.add_gradients(d_output_, n, gradients[weights2], gradients[bias2]);
    second_.input_gradients(n, parameters[weights2], d_middle_);
    first_.add_gradients(d_middle_, n, gradients[weights1], gradients[bias1]);
  }

  const std::array<ParameterSpec, 6> specs_{{
      {"conv1/weights", {first.out_channels, first.taps()}, std::sqrt(2.0F / static_cast<float>(first.taps()))},
      {"conv1/bias", {first.out_channels}, 0},
      {"conv2/weights", {second.out_channels, second.taps()}, std::sqrt(2.0F / static_cast<float>(second.taps()))},
      {"conv2/bias", {second.out_channels}, 0},
      {"dense/weights", {features, num_classes}, std::sqrt(2.0F / static_cast<float>(features + num_classes))},
      {"dense/bias", {num_classes}, 0},
  }};
  StageBuffers first_{first};
  StageBuffers second_{second};
  Scratch<float> scratch_features_;
  Scratch<float> scratch_logits_;
  Scratch<float> scratch_d_output_;
  Scratch<float> scratch_d_middle_;
  float* features_ = scratch_features_.at_least(images_at_a_time * features);  // [n, features], then its gradients
  float* logits_ = scratch_logits_.at_least(images_at_a_time * num_classes);   // [n, num_classes], then its gradients
  float* d_output_ = scratch_d_output_.at_least(images_at_a_time * features);
  float* d_middle_ = scratch_d_middle_.at_least(images_at_a_time * first.out_elements());
};

}  // namespace

std::unique_ptr<Model> make_cnn() { return std::make_unique<Cnn>(); }

}  // namespace train
