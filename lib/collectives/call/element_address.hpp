// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where an element lies.

#pragma once

#include <lockstep/core/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// The address of element number `element` of the tensor of `dtype` at `base`.
[[nodiscard]] inline const std::byte* at(const void* base, std::int64_t element, DType dtype) noexcept {
  return static_cast<const std::byte*>(base) + static_cast<std::size_t>(element) * size_of(dtype);
}
[[nodiscard]] inline std::byte* at(void* base, std::int64_t element, DType dtype) noexcept {
  return static_cast<std::byte*>(base) + static_cast<std::size_t>(element) * size_of(dtype);
}

}  // namespace lockstep::detail
