// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The formulas are those of train/mlp.cpp. Every step is put on the replica's stream; the host waits once, for the sum
// of the losses.

#include "train/gpu/mlp.hpp"

#include "train/gpu/products.hpp"
#include "train/mlp.hpp"

#include <lockstep/lockstep.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>

namespace train::gpu {
namespace {

/// Memory of a GPU for intermediate results, which only grows. The old memory is freed in order with the stream.
template <class T>
class DeviceScratch {
 public:
  explicit DeviceScratch(lockstep::Device device) : device_(device) {}

  [[nodiscard]] T* at_least(std::int64_t count) {
    if (!elements_ || elements_->element_count() < count)
      elements_ = lockstep::Tensor::uninitialized(lockstep::dtype_of<T>, lockstep::Shape{count}, nullptr, device_);
    return static_cast<T*>(elements_->data());
  }

 private:
  lockstep::Device device_;
  std::optional<lockstep::Tensor> elements_;
};

class MlpOnGpu final : public Model {
 public:
  MlpOnGpu(lockstep::Device device, const Backend& backend)
      : device_(device),
        stream_(lockstep::stream_handle(device)),
        kernels_(used_for(backend.kernels, device)),
        products_(device, backend.cublas),
        sum_(lockstep::DType::f64, lockstep::Shape{}, nullptr, device),
        sum_on_host_(lockstep::DType::f64, lockstep::Shape{}, lockstep::pinned_memory_resource()) {}
  MlpOnGpu(const MlpOnGpu&) = delete;
  MlpOnGpu& operator=(const MlpOnGpu&) = delete;
  ~MlpOnGpu() override {
    try {
      kernels_->use(device_.index);
    } catch (const std::exception&) {  // then the destructors do not wait for the device
    }
  }

  std::span<const ParameterSpec> parameters() const override { return specs_; }
  bool is_on_gpu() const override { return true; }

  double loss_and_gradients(std::span<const float* const> parameters, const float* images, const std::uint8_t* labels,
                            std::int64_t n, float scale, std::span<float* const> gradients,
                            const GradientsReady& ready) override {
    kernels_->use(device_.index);
    const bool is_first = std::exchange(rows_before_, n) != n;
    const auto computed = [&](std::size_t parameter) {
      if (!is_first) ready(parameter);
    };
    const double loss =
        n == 0 ? zero(gradients, computed) : differentiate(parameters, images, labels, n, scale, gradients, computed);
    for (std::size_t k = specs_.size(); is_first && k-- > 0;) ready(k);
    return loss;
  }

  std::int64_t correct(std::span<const float* const> parameters, const float* images, const std::uint8_t* labels,
                       std::int64_t n) override {
    if (n == 0) return 0;
    kernels_->use(device_.index);
    float* const products = forward(parameters, images, n);
    double* const marks = row_values_.at_least(n);
    kernels_->launch(MarkCorrect{products, parameters[output_bias], labels, num_classes, marks}, n, stream_);
    return static_cast<std::int64_t>(received_sum(marks, n));
  }

 private:
  static std::shared_ptr<Kernels> used_for(const std::shared_ptr<Kernels>& kernels, lockstep::Device device) {
    kernels->use(device.index);  // a cuBLAS handle belongs to the current device
    return kernels;
  }

  double zero(std::span<float* const> gradients, const GradientsReady& computed) {
    for (std::size_t k = gradients.size(); k-- > 0;) {
      sum_rows<float>(nullptr, 0, specs_[k].element_count(), gradients[k], partial_sums_);
      computed(k);
    }
    return 0;
  }

  double differentiate(std::span<const float* const> parameters, const float* images, const std::uint8_t* labels,
                       std::int64_t n, float scale, std::span<float* const> gradients, const GradientsReady& computed) {
    float* const d_logits = forward(parameters, images, n);
    const float* const hidden = hidden_.at_least(n * hidden_units);
    double* const losses = row_values_.at_least(n);
    kernels_->launch(SoftmaxCrossEntropy{d_logits, parameters[output_bias], labels, num_classes, scale, losses}, n,
                     stream_);
    sum_rows(d_logits, n, num_classes, gradients[output_bias], partial_sums_);
    computed(output_bias);
    products_.gemm(hidden_units, num_classes, n, transposed(hidden), plain(d_logits), gradients[output_weights]);
    computed(output_weights);

    float* const d_hidden = d_hidden_.at_least(n * hidden_units);
    products_.gemm(n, hidden_units, num_classes, plain(d_logits), transposed(parameters[output_weights]), d_hidden);
    kernels_->launch(ReluGradients{d_hidden, hidden}, n * hidden_units, stream_);
    sum_rows(d_hidden, n, hidden_units, gradients[hidden_bias], partial_sums_);
    computed(hidden_bias);
    products_.gemm(image_pixels, hidden_units, n, transposed(images), plain(d_hidden), gradients[hidden_weights]);
    computed(hidden_weights);
    return received_sum(losses, n);
  }

  /// The logits, without their bias.
  float* forward(std::span<const float* const> parameters, const float* images, std::int64_t n) {
    float* const hidden = hidden_.at_least(n * hidden_units);
    float* const logits = logits_.at_least(n * num_classes);
    products_.gemm(n, hidden_units, image_pixels, plain(images), plain(parameters[hidden_weights]), hidden);
    kernels_->launch(AddBiasAndRelu{hidden, parameters[hidden_bias], hidden_units}, n * hidden_units, stream_);
    products_.gemm(n, num_classes, hidden_units, plain(hidden), plain(parameters[output_weights]), logits);
    return logits;
  }

  /// The sum of all rows of [rows, columns], by way of partial sums, so that many threads take part.
  template <class T>
  void sum_rows(const T* source, std::int64_t rows, std::int64_t columns, T* target, DeviceScratch<T>& scratch) {
    constexpr std::int64_t rows_at_a_time = 64;
    const std::int64_t sums = (rows + rows_at_a_time - 1) / rows_at_a_time;
    if (sums > 1) {
      T* const partial = scratch.at_least(sums * columns);
      kernels_->launch(SumRows<T>{source, rows, columns, rows_at_a_time, partial}, sums * columns, stream_);
      source = partial;
      rows = sums;
    }
    kernels_->launch(SumRows<T>{source, rows, columns, rows, target}, columns, stream_);
  }

  /// The sum of `count` values, after all work on the stream.
  double received_sum(const double* values, std::int64_t count) {
    sum_rows(values, count, 1, static_cast<double*>(sum_.data()), partial_values_);
    sum_on_host_.copy_from(sum_.view());
    return sum_on_host_.elements<double>().front();
  }

  const MlpParameters specs_ = mlp_parameters();
  lockstep::Device device_;
  void* stream_;
  std::shared_ptr<Kernels> kernels_;
  Products products_;
  lockstep::Tensor sum_;
  lockstep::Tensor sum_on_host_;
  DeviceScratch<float> hidden_{device_};
  DeviceScratch<float> d_hidden_{device_};
  DeviceScratch<float> logits_{device_};
  DeviceScratch<float> partial_sums_{device_};
  DeviceScratch<double> row_values_{device_};  // losses, or marks
  DeviceScratch<double> partial_values_{device_};
  std::int64_t rows_before_ = -1;  // rows of the previous batch
};

}  // namespace

std::unique_ptr<Model> make_mlp(lockstep::Device device, const Backend& backend) {
  return std::make_unique<MlpOnGpu>(device, backend);
}

}  // namespace train::gpu
