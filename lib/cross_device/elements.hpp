// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What reductions do to single elements: on the host, also to those of GPUs, which are copied there and back.

#pragma once

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>

namespace lockstep {

/// Divides every element by `count`, in the accumulation type, rounded once. Floating-point elements only.
void divide_elements(TensorView view, std::int64_t count);

/// A tensor with the same values in f64, in the same place.
[[nodiscard]] Tensor converted_to_f64(ConstTensorView view);

/// `value`, in host memory, with its elements as `dtype`: f32 to f16 or bf16, rounded once; else itself.
[[nodiscard]] Tensor rounded_to(const Tensor& value, DType dtype);

}  // namespace lockstep
