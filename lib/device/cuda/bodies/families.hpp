// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Choice of the element class of a fold, by op and dtype. Each function calls `visit` with an object of a class of
// elements.hpp, and returns the status that `visit` returns. with_floats and with_integer_means return
// Status::invalid_value for a dtype that they do not support, without a call of `visit`.

#pragma once

#include "bindings/cuda/cuda.hpp"
#include "device/cuda/bodies/elements.hpp"

#include <lockstep/core/dtype.hpp>

#include <cstdint>

namespace lockstep::detail::cuda {

template <ReduceOp op, class Visit>
Status with_floats(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f16: return visit(Half<op>());
    case DType::bf16: return visit(Brain<op>());
    case DType::f32: return visit(Plain<float, op>());
    case DType::f64: return visit(Plain<double, op>());
    default: return Status::invalid_value;
  }
}

/// For ops for which only the size of an integer matters: sums and products, which wrap, and bitwise ops.
template <ReduceOp op, class Visit>
Status with_sizes(DType dtype, const Visit& visit) {
  switch (size_of(dtype)) {
    case 1: return visit(Plain<std::uint8_t, op>());
    case 2: return visit(Plain<std::uint16_t, op>());
    case 4: return visit(Plain<std::uint32_t, op>());
    default: return visit(Plain<std::uint64_t, op>());
  }
}

/// For sums and products.
template <ReduceOp op, class Visit>
Status with_wrapping(DType dtype, const Visit& visit) {
  return is_floating_point(dtype) ? with_floats<op>(dtype, visit) : with_sizes<op>(dtype, visit);
}

/// For minima and maxima, which distinguish signed from unsigned integers.
template <ReduceOp op, class Visit>
Status with_ordered(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::i8: return visit(Plain<std::int8_t, op>());
    case DType::i16: return visit(Plain<std::int16_t, op>());
    case DType::i32: return visit(Plain<std::int32_t, op>());
    case DType::i64: return visit(Plain<std::int64_t, op>());
    default: return with_wrapping<op>(dtype, visit);
  }
}

/// For means of integers.
template <class Visit>
Status with_integer_means(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::i8: return visit(IntegerMean<std::int8_t>());
    case DType::i16: return visit(IntegerMean<std::int16_t>());
    case DType::i32: return visit(IntegerMean<std::int32_t>());
    case DType::i64: return visit(IntegerMean<std::int64_t>());
    case DType::u8: return visit(IntegerMean<std::uint8_t>());
    case DType::u16: return visit(IntegerMean<std::uint16_t>());
    case DType::u32: return visit(IntegerMean<std::uint32_t>());
    case DType::u64: return visit(IntegerMean<std::uint64_t>());
    default: return Status::invalid_value;
  }
}

}  // namespace lockstep::detail::cuda
