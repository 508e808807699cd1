// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a tensor will be, before it is there.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/dtype.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Element type and extents of a tensor; an extent without a value is known only when the tensor is there. A value.
struct TensorSpec {
  DType dtype = DType::f32;
  std::vector<std::optional<std::int64_t>> shape;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// "i64[?, 28]". Local.
[[nodiscard]] LOCKSTEP_API std::string to_string(const TensorSpec& spec);

}  // namespace lockstep
