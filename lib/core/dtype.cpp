// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/core/dtype.hpp>

#include "base/check.hpp"

#include <array>
#include <utility>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, dtype_count> dtype_names{"f16", "bf16", "f32", "f64", "i8",  "i16", "i32",
                                                                "i64", "u8",   "u16", "u32", "u64", "bool"};

constexpr std::array<std::string_view, dtype_count> tensorflow_names{
    "float16", "bfloat16", "float32", "float64", "int8",   "int16",  "int32",
    "int64",   "uint8",    "uint16",  "uint32",  "uint64", "boolean"};

}  // namespace

std::string_view to_string(DType dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < dtype_names.size() ? dtype_names[index] : "unknown";
}

DType parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < dtype_names.size(); ++i) {
    if (name == dtype_names[i] || name == tensorflow_names[i]) return static_cast<DType>(i);
  }
  detail::throw_error(Code::invalid_argument,
                      "dtype \"{}\" is unknown; it must be one of f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool",
                      name);
}

}  // namespace lockstep
