// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What reductions do to single elements: on the host, to which those of GPUs are copied, and back, but for `divided`.

#pragma once

#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>

#include <cstdint>

namespace lockstep {

/// A tensor with the elements of `sum` divided by `replicas`, rounded once, as a mean of so many: those of integers are
/// f64. On a GPU it is made there, in order with its stream.
[[nodiscard]] Tensor divided(ConstTensorView sum, int replicas);

/// Divides every element by `count`, in the accumulation type, rounded once. Floating-point elements only.
void divide_elements(TensorView view, std::int64_t count);

/// A tensor with the same values in f64, in the same place.
[[nodiscard]] Tensor converted_to_f64(ConstTensorView view);

/// `value`, in host memory, with its elements as `dtype`: f32 to f16 or bf16, rounded once; else itself.
[[nodiscard]] Tensor rounded_to(const Tensor& value, DType dtype);

}  // namespace lockstep
