// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on copies of variables. Copies and values may be in host memory or on GPUs.

#pragma once

#include <lockstep/core/tensor_view.hpp>

namespace lockstep::detail {

/// target += value, or target -= value, element by element; both have the same dtype and element count. Integers wrap.
/// Throws Error(invalid_argument) for bool. Computed on the device of `target`.
void add_to(TensorView target, ConstTensorView value);
void subtract_from(TensorView target, ConstTensorView value);

/// Writes to `target`, element by element, the share of `total` that belongs to replica `replica` of `replicas`: total
/// / replicas. For integers, the remainder is divided among the first replicas. Throws Error(invalid_argument) for
/// bool. Computed in host memory.
void write_share(TensorView target, ConstTensorView total, int replica, int replicas);

}  // namespace lockstep::detail
