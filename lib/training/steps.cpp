// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "training/steps.hpp"

#include "device/cuda/backend.hpp"
#include "device/cuda/streams.hpp"
#include "device/host/host_elements.hpp"

#include <lockstep/device/gpu.hpp>

#include <cstddef>
#include <span>

namespace lockstep::detail {
namespace {

std::span<float> written(const TensorView& view) {
  return {static_cast<float*>(view.data), static_cast<std::size_t>(view.element_count())};
}

std::span<const float> read(const ConstTensorView& view) {
  return {static_cast<const float*>(view.data), static_cast<std::size_t>(view.element_count())};
}

/// Calls `step(kernels, stream)` on the GPU `place`.
template <class Step>
void on_gpu(Device place, const Step& step) {
  const cuda::CurrentDevice current(place.index);
  cuda::Backend& backend = cuda::Backend::of_this_process();
  cuda::check(backend.api(), step(backend.kernels(), cuda::stream_of(place)), "optimizer: launching the kernel");
}

}  // namespace

void sgd_step(const TensorView& parameter, const ConstTensorView& gradient, float rate) {
  if (is_on_host(parameter.device)) return sgd_step(written(parameter), read(gradient), rate);
  on_gpu(parameter.device, [&](cuda::Kernels& kernels, cuda::Stream stream) {
    return kernels.sgd_step(written(parameter), read(gradient), rate, stream);
  });
}

void momentum_step(const TensorView& parameter, const TensorView& movement, const ConstTensorView& gradient, float rate,
                   float momentum) {
  if (is_on_host(parameter.device)) {
    return momentum_step(written(parameter), written(movement), read(gradient), rate, momentum);
  }
  on_gpu(parameter.device, [&](cuda::Kernels& kernels, cuda::Stream stream) {
    return kernels.momentum_step(written(parameter), written(movement), read(gradient), rate, momentum, stream);
  });
}

void adam_step(const TensorView& parameter, const TensorView& mean, const TensorView& square,
               const ConstTensorView& gradient, const AdamFactors& factors) {
  if (is_on_host(parameter.device)) {
    return adam_step(written(parameter), written(mean), written(square), read(gradient), factors);
  }
  on_gpu(parameter.device, [&](cuda::Kernels& kernels, cuda::Stream stream) {
    return kernels.adam_step(written(parameter), written(mean), written(square), read(gradient), factors, stream);
  });
}

void adam_moments(const TensorView& mean, const TensorView& square, const ConstTensorView& gradient, float beta_1,
                  float beta_2) {
  if (is_on_host(mean.device)) return adam_moments(written(mean), written(square), read(gradient), beta_1, beta_2);
  on_gpu(mean.device, [&](cuda::Kernels& kernels, cuda::Stream stream) {
    return kernels.adam_moments(written(mean), written(square), read(gradient), beta_1, beta_2, stream);
  });
}

void lamb_direction(const TensorView& out, const ConstTensorView& parameter, const ConstTensorView& mean,
                    const ConstTensorView& square, const LambFactors& factors) {
  if (is_on_host(out.device)) return lamb_direction(written(out), read(parameter), read(mean), read(square), factors);
  on_gpu(out.device, [&](cuda::Kernels& kernels, cuda::Stream stream) {
    return kernels.lamb_direction(written(out), read(parameter), read(mean), read(square), factors, stream);
  });
}

GradientOnDevice::GradientOnDevice(const ConstTensorView& gradient, Device place) : view_(gradient) {
  const bool is_there = is_on_host(place) ? is_on_host(gradient.device) : gradient.device == place;
  if (is_there) return;
  copy_ = Tensor::uninitialized(gradient.dtype, gradient.shape, nullptr, place);
  copy(copy_->view(), gradient);
  view_ = copy_->view();
}

}  // namespace lockstep::detail
