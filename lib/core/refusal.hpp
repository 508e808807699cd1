// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The error text for a reduction that does not support an element type.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <fmt/format.h>

#include <string>

namespace lockstep::detail {

/// Returns a text such as "band does not take f32 elements; it takes integers and bool". `supports(op, dtype)` must be
/// false.
inline std::string refusal(ReduceOp op, DType dtype) {
  return fmt::format("{} does not take {} elements; {}", to_string(op), to_string(dtype),
                     is_bitwise(op) ? "it takes integers and bool" : "bool takes min, max, band, bor and bxor");
}

}  // namespace lockstep::detail
