// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where an element of a buffer lies.

#pragma once

#include <lockstep/core/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

/// `base` is a pointer to std::byte or to const std::byte.
template <class Byte>
[[nodiscard]] Byte* at(Byte* base, std::int64_t element, DType dtype) {
  return base + static_cast<std::size_t>(element) * size_of(dtype);
}

}  // namespace lockstep::detail
