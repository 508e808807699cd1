// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// kernels/optimizer_step on the copies of variables on any device: in host memory by the processor, on a GPU by its
// kernels, in order with its stream. The bits are the same.

#pragma once

#include "kernels/optimizer_step.hpp"

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/variables/variable.hpp>

#include <optional>

namespace lockstep::detail {

// All views of one call are f32, have the same number of elements, and are on one device.

void sgd_step(const TensorView& parameter, const ConstTensorView& gradient, float rate);
void momentum_step(const TensorView& parameter, const TensorView& movement, const ConstTensorView& gradient, float rate,
                   float momentum);
void adam_step(const TensorView& parameter, const TensorView& mean, const TensorView& square,
               const ConstTensorView& gradient, const AdamFactors& factors);
void adam_moments(const TensorView& mean, const TensorView& square, const ConstTensorView& gradient, float beta_1,
                  float beta_2);
void lamb_direction(const TensorView& out, const ConstTensorView& parameter, const ConstTensorView& mean,
                    const ConstTensorView& square, const LambFactors& factors);

/// `gradient` on the device of the parameter: the gradient itself, or a copy that lives as long as this object.
class GradientOnDevice {
 public:
  GradientOnDevice(const ConstTensorView& gradient, Device place);
  [[nodiscard]] const ConstTensorView& view() const noexcept { return view_; }

 private:
  std::optional<Tensor> copy_;
  ConstTensorView view_;
};

/// The copy that this update may write, on any device. An update of a typed variable gets a span of host memory;
/// therefore optimizers update their variables as `const Variable&`.
[[nodiscard]] inline TensorView copy_to_write(const Variable& variable) { return variable.updatable_component(); }

}  // namespace lockstep::detail
