// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Elementwise arithmetic of reductions. `divided` computes on the device of its tensor. All other functions compute on
// the host: elements on a GPU are copied to the host and back.

#pragma once

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>

namespace lockstep {

/// Returns the mean over `replicas` replicas: the elements of `sum` divided by `replicas` and rounded once. The mean of
/// integers is f64. If `sum` is on a GPU, the GPU computes the mean, in stream order.
[[nodiscard]] Tensor divided(ConstTensorView sum, int replicas);

/// Divides every element by `count` in the accumulation type and rounds once. Floating-point elements only.
void divide_elements(TensorView view, std::int64_t count);

/// Whether elements of type `to` hold every value of type `from` exactly. f16 and bf16 hold only their own values.
[[nodiscard]] bool holds(DType to, DType from);

/// A tensor with the same values in `dtype`, which holds them, on the same device.
[[nodiscard]] Tensor converted_to(ConstTensorView view, DType dtype);

/// Returns `value` if it has the dtype `dtype`. Otherwise returns its f32 elements rounded once to f16 or bf16. `value`
/// must be in host memory.
[[nodiscard]] Tensor rounded_to(const Tensor& value, DType dtype);

}  // namespace lockstep
