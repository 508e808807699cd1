// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements by their type.

#pragma once

#include "support/canonical_sum.hpp"

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/float16.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace lockstep::test {

/// Calls `visit` with an object of the C++ type of `dtype`.
template <class Visit>
void with_type(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f16: return visit(Float16{});
    case DType::bf16: return visit(BFloat16{});
    case DType::f32: return visit(float{});
    case DType::f64: return visit(double{});
    case DType::i8: return visit(std::int8_t{});
    case DType::i16: return visit(std::int16_t{});
    case DType::i32: return visit(std::int32_t{});
    case DType::i64: return visit(std::int64_t{});
    case DType::u8: return visit(std::uint8_t{});
    case DType::u16: return visit(std::uint16_t{});
    case DType::u32: return visit(std::uint32_t{});
    case DType::u64: return visit(std::uint64_t{});
    case DType::boolean: return visit(bool{});
  }
  throw std::logic_error("no such dtype");
}

template <class T>
T at(const Bytes& bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void put(Bytes& bytes, std::int64_t index, T value) {
  std::memcpy(bytes.data() + static_cast<std::size_t>(index) * sizeof(T), &value, sizeof(T));
}

/// `value`, or the canonical NaN in place of any NaN.
template <class T>
T canonical(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  } else if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return std::isnan(static_cast<float>(value)) ? T(std::numeric_limits<float>::quiet_NaN()) : value;
  }
}

}  // namespace lockstep::test
