// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Applies kernels/optimizer_step to copies of variables on any device. The processor updates copies in host memory;
// kernels update copies on a GPU, in the order of the replica's stream. The results have the same bits.

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

/// `gradient` on the device of the parameter: the gradient itself, or a copy that exists as long as this object.
class GradientOnDevice {
 public:
  GradientOnDevice(const ConstTensorView& gradient, Device place);
  [[nodiscard]] const ConstTensorView& view() const noexcept { return view_; }

 private:
  std::optional<Tensor> copy_;
  ConstTensorView view_;
};

/// The copy of `variable` that the current update may write, on any device. Optimizers update their variables as `const
/// Variable&`, because the update of a typed variable gets a span, which refers to host memory.
[[nodiscard]] inline TensorView copy_to_write(const Variable& variable) { return variable.updatable_component(); }

}  // namespace lockstep::detail
