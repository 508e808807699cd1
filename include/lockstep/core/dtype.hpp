// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Element types: the run-time enumeration, and the C++ types that its enumerators stand for.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/float16.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace lockstep {

/// The element type of a tensor. The order of the enumerators is part of the wire format.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

inline constexpr int dtype_count = 13;

/// Size of one element in bytes. Local.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::i8:
    case DType::u8:
    case DType::boolean: return 1;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16: return 2;
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::f64:
    case DType::i64:
    case DType::u64: return 8;
  }
  return 0;
}

/// Whether `dtype` is f16, bf16, f32 or f64. Local.
[[nodiscard]] constexpr bool is_floating_point(DType dtype) noexcept { return dtype <= DType::f64; }

/// Whether `dtype` is an integer of any width, signed or unsigned; bool is not an integer. Local.
[[nodiscard]] constexpr bool is_integer(DType dtype) noexcept { return dtype > DType::f64 && dtype < DType::boolean; }

/// The name of `dtype`: "f32", "i64", "bool", ... Local.
[[nodiscard]] LOCKSTEP_API std::string_view to_string(DType dtype) noexcept;

/// The element type named `name`. TensorFlow's names ("float32", "bfloat16", "int64", "bool") are accepted as well.
/// Local. Throws Error(invalid_argument), whose text lists the names, for any other text.
[[nodiscard]] LOCKSTEP_API DType parse_dtype(std::string_view name);

/// The DType of a C++ type: `dtype_of<float> == DType::f32`. Defined for element types only.
template <class T>
struct dtype_traits;

// clang-format off
template <> struct dtype_traits<Float16> { static constexpr DType value = DType::f16; };
template <> struct dtype_traits<BFloat16> { static constexpr DType value = DType::bf16; };
template <> struct dtype_traits<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_traits<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_traits<bool> { static constexpr DType value = DType::boolean; };
// clang-format on

/// Integers are mapped by width and signedness, so `long` and `long long` are both i64.
template <class T>
  requires(std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && sizeof(T) <= 8)
struct dtype_traits<T> {
  static constexpr DType value = [] {
    const bool is_signed = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1: return is_signed ? DType::i8 : DType::u8;
      case 2: return is_signed ? DType::i16 : DType::u16;
      case 4: return is_signed ? DType::i32 : DType::u32;
      default: return is_signed ? DType::i64 : DType::u64;
    }
  }();
};

/// A C++ type that can be an element of a tensor.
template <class T>
concept Element = requires {
  { dtype_traits<std::remove_cv_t<T>>::value } -> std::convertible_to<DType>;
};

template <Element T>
inline constexpr DType dtype_of = dtype_traits<std::remove_cv_t<T>>::value;

}  // namespace lockstep
