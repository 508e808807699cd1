// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Conversion of numbers between element types that are known at run time.

#pragma once

#include <lockstep/core/dtype.hpp>

#include <cstdint>

namespace lockstep::detail {

/// The result of a conversion: `wrong_kind` from a floating-point number to an integer, and between bool and any other
/// type; `out_of_range` from an integer to an integer type that does not have its value.
enum class NumberConversion : std::uint8_t { done, wrong_kind, out_of_range };

/// Converts the element `source` to a `target_dtype`. A result in floating point is rounded to nearest. If the number
/// cannot be converted, `target` is not written.
[[nodiscard]] NumberConversion convert_number(DType target_dtype, void* target, DType source_dtype, const void* source);

}  // namespace lockstep::detail
