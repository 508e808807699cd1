// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What every rank must know of all replicas' tensors before tensors of different extents can be put together.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// One component of a value.
struct ComponentShape {
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t rows = 0;  ///< of sparse rows: of the whole tensor
  friend bool operator==(const ComponentShape&, const ComponentShape&) = default;
};

/// `result[k]`: the components of value k on all replicas, by id; `mine[k]` are those of this rank. The same on every
/// rank, so that what is found wrong in it is found by all of them. `setting` is a number that must be equal, too,
/// named `setting_name`: Error(mismatch). Collective; local with one rank.
[[nodiscard]] std::vector<std::vector<ComponentShape>> exchange_shapes(
    Communicator& communicator, std::string_view call, std::span<const std::vector<ComponentShape>> mine,
    std::int64_t setting, std::string_view setting_name, const ReduceOptions& how);

/// Throws Error(invalid_argument) unless all components are equal but for their extents along `axis`; negative axis:
/// in everything. Messages begin with `call`.
void check_shapes_match(std::span<const ComponentShape> components, int axis, std::string_view call);

}  // namespace lockstep
