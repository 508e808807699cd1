// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Dispatch from an element type that is known at run time to code that is compiled for each C++ type.

#pragma once

#include <lockstep/core/dtype.hpp>
#include <lockstep/core/float16.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lockstep::detail {

/// Returns `fn.template operator()<T>()` for the T whose dtype_of is `dtype`. The result type must be the same for all
/// T.
template <class Fn>
decltype(auto) visit_dtype(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::boolean: return fn.template operator()<bool>();
    case DType::i8: return fn.template operator()<std::int8_t>();
    case DType::i16: return fn.template operator()<std::int16_t>();
    case DType::i32: return fn.template operator()<std::int32_t>();
    case DType::i64: return fn.template operator()<std::int64_t>();
    case DType::u8: return fn.template operator()<std::uint8_t>();
    case DType::u16: return fn.template operator()<std::uint16_t>();
    case DType::u32: return fn.template operator()<std::uint32_t>();
    case DType::u64: return fn.template operator()<std::uint64_t>();
    case DType::f16: return fn.template operator()<Float16>();
    case DType::bf16: return fn.template operator()<BFloat16>();
    case DType::f64: return fn.template operator()<double>();
    case DType::f32: break;
  }
  return fn.template operator()<float>();
}

template <class T>
struct SumType {
  using type = T;
};
template <std::integral T>
  requires(!std::same_as<T, bool>)
struct SumType<T> {
  using type = std::make_unsigned_t<T>;
};
template <>
struct SumType<Float16> {
  using type = float;
};
template <>
struct SumType<BFloat16> {
  using type = float;
};
/// The type in which elements of T are added: f32 for the 16-bit floats, unsigned for integers, so that sums wrap.
template <class T>
using sum_t = typename SumType<T>::type;

}  // namespace lockstep::detail
