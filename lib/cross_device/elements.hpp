// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Elementwise arithmetic of reductions. All but `divided` compute on the host: elements on a GPU are copied there and
// back.

#pragma once

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>

namespace lockstep {

/// The mean over `replicas` replicas whose sum is `sum`: its elements divided by `replicas` and rounded once; f64 for
/// integers. For a tensor on a GPU it is computed there, in stream order.
[[nodiscard]] Tensor divided(ConstTensorView sum, int replicas);

/// Divides every element by `count` in the accumulation type and rounds once. Floating-point elements only.
void divide_elements(TensorView view, std::int64_t count);

/// A tensor with the same values in f64, on the same device.
[[nodiscard]] Tensor converted_to_f64(ConstTensorView view);

/// `value` itself if it has that dtype; else its f32 elements rounded once to f16 or bf16. In host memory.
[[nodiscard]] Tensor rounded_to(const Tensor& value, DType dtype);

}  // namespace lockstep
