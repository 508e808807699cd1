// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The classifiers that lockstep-train trains, as pure arithmetic: parameters and rows in, loss and gradients out.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// The format of images for all models: 28 x 28 grey values in row-major order, scaled to [0, 1]; and one of ten
/// classes.
inline constexpr std::int64_t image_side = 28;
inline constexpr std::int64_t image_pixels = image_side * image_side;
inline constexpr std::int64_t num_classes = 10;

/// One trainable array of a model; row-major.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  /// Standard deviation of the normal distribution around 0 to start from; 0: zeros.
  float initial_stddev = 0;

  [[nodiscard]] std::int64_t element_count() const;
};

/// Called with the number of each parameter once its gradients are final, so that they can be sent while others are
/// computed.
using GradientsReady = std::function<void(std::size_t parameter)>;

/// A classifier. It contains no parameters, only scratch memory, so each replica has a model of its own.
///
/// In every call, `parameters[i]` and `gradients[i]` are arrays as `parameters()[i]` describes them, `images` is [n,
/// image_pixels] and `labels` is [n], each below num_classes. Arrays that are written do not overlap others.
///
/// On one machine, and with one build of oneDNN, equal values of equal shapes give equal bits, in every thread and
/// process, with any number of concurrent calls, and at any addresses that are aligned to 64 bytes. Results do depend
/// on how rows are divided into calls.
///
/// Thread-safety: one call at a time per model; different models compute at the same time. A call computes in the
/// calling thread alone. Throws std::bad_alloc, and std::runtime_error if oneDNN fails.
class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model();

  /// The trainable arrays, in the order in which all calls take them. The same for every model of one name; valid as
  /// long as the model.
  [[nodiscard]] virtual std::span<const ParameterSpec> parameters() const = 0;

  /// Whether the arrays of all calls reside in the memory of a GPU (gpu/mlp.hpp), else in host memory.
  [[nodiscard]] virtual bool is_on_gpu() const { return false; }

  /// Overwrites `gradients` by those of `scale` * (the sum over the rows of softmax cross-entropy), and returns that
  /// sum, without `scale`. With scale = 1 / (rows of the global batch), summing the gradients of all replicas gives
  /// those of the global mean. n = 0 is a valid batch: zero gradients, loss 0. Scratch memory grows to the largest n
  /// seen, and is then reused. `ready` is called once for each parameter, from the last to the first.
  [[nodiscard]] virtual double loss_and_gradients(std::span<const float* const> parameters, const float* images,
                                                  const std::uint8_t* labels, std::int64_t n, float scale,
                                                  std::span<float* const> gradients, const GradientsReady& ready) = 0;

  /// The number of rows whose largest logit (the first of equals) is that of their label.
  [[nodiscard]] virtual std::int64_t correct(std::span<const float* const> parameters, const float* images,
                                             const std::uint8_t* labels, std::int64_t n) = 0;
};

/// 784 - 256 - 10 with ReLU: 203,530 parameters.
[[nodiscard]] std::unique_ptr<Model> make_mlp();
/// Two convolutions of 5 x 5, to 8 and to 16 channels, each with ReLU and max-pooling by 2, then a dense layer: 5,994
/// parameters.
[[nodiscard]] std::unique_ptr<Model> make_cnn();
/// The model called `name`: "mlp" or "cnn". Throws std::invalid_argument for any other name.
[[nodiscard]] std::unique_ptr<Model> make_model(std::string_view name);

}  // namespace train
