// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The checks of annotations for logical devices inside a replica, of which there is one: 0.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/shape.hpp>

#include <span>

namespace lockstep::detail {

/// Throws Error(invalid_argument) unless `id` is 0.
LOCKSTEP_API void check_logical_device(int id);

/// Throws Error(invalid_argument) unless a tensor of that shape can be cut so, and into one part.
LOCKSTEP_API void check_logical_split(const Shape& shape, std::span<const int> parts);

}  // namespace lockstep::detail
