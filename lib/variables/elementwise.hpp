// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on copies of variables. Copies and values may be in host memory or on GPUs.

#pragma once

#include <lockstep/core/tensor_view.hpp>

namespace lockstep::detail {

/// target += value, or target -= value, element by element; both have the same dtype and element count. Integers wrap.
/// Throws Error(invalid_argument) for bool. Sums of tensors on a GPU are computed there, differences in host memory.
void add_to(TensorView target, ConstTensorView value);
void subtract_from(TensorView target, ConstTensorView value);

/// Writes the share of replica `replica` of `replicas` in `total` to `target`, element by element: total / replicas;
/// for integers the remainder goes to the first replicas. Throws Error(invalid_argument) for bool. In host memory.
void write_share(TensorView target, ConstTensorView total, int replica, int replicas);

}  // namespace lockstep::detail
