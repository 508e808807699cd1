// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of the cases' small functions, on tensors of any number type on any device. Computed in f64 on the
// host; results have the type and device of the first operand.

#pragma once

#include <lockstep/lockstep.hpp>

#include "core/visit_dtype.hpp"

#include <functional>

namespace lockstep::conformance {

using Number = double;

/// `fn(a[i], b[i])`; a `b` with one element is used for all `i`.
Tensor combined(const Tensor& a, const Tensor& b, const std::function<Number(Number, Number)>& fn);
/// The sum of all elements, a scalar.
Tensor sum_of(const Tensor& a);
/// The only element.
Number number_in(const Tensor& a);

}  // namespace lockstep::conformance
