// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/tensor_view.hpp>

namespace lockstep::detail {

/// target += value, target -= value, element by element; same dtype and element count. Integers wrap. bool is refused
/// with Error(invalid_argument).
void add_to(TensorView target, ConstTensorView value);
void subtract_from(TensorView target, ConstTensorView value);

}  // namespace lockstep::detail
