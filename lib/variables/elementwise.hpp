// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

// Arithmetic on copies of variables, wherever they and the values lie.

#pragma once

#include <lockstep/core/tensor_view.hpp>

namespace lockstep::detail {

/// target += value, target -= value, element by element; same dtype and element count. Integers wrap. bool is refused
/// with Error(invalid_argument). On a GPU the sum is made there; the difference is made in host memory.
void add_to(TensorView target, ConstTensorView value);
void subtract_from(TensorView target, ConstTensorView value);

/// target = what replica `replica` of `replicas` gets of `total`, element by element: total / replicas; of integers
/// without remainder, which goes to the first replicas. bool is refused with Error(invalid_argument). In host memory.
void write_share(TensorView target, ConstTensorView total, int replica, int replicas);

}  // namespace lockstep::detail
