// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of distributed values that become the items of one collective: by what this rank alone can see, and by an
// exchange of shapes, in which every rank learns the shapes of all replicas before tensors of different extents are
// gathered.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// Throws Error(invalid_argument) unless there is one component per local replica. Local.
void check_component_count(std::size_t components, std::string_view call, int local_replicas);

/// Throws Error(invalid_argument) unless all components have the same element type. Local.
void check_same_dtype(std::span<const ConstTensorView> components, std::string_view call, int first_replica);

/// Throws Error(invalid_argument) if the number of inputs of an item is not that of the local replicas, if their dtypes
/// or shapes differ, if `op` does not support the dtype, or if an output has another dtype than the result. Local.
/// `first_replica` is the id of component 0.
void check_distributed_items(std::span<const Item> items, ReduceOp op, std::string_view call, int local_replicas,
                             int first_replica);

/// Dtype and shape of one component of a value.
struct ComponentShape {
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t rows = 0;  ///< for sparse rows: rows of the whole tensor
  friend bool operator==(const ComponentShape&, const ComponentShape&) = default;
};

/// Returns the shapes of all components: `result[k][r]` is that of value k on replica r; `mine[k]` holds those of this
/// rank. The result is the same on every rank, so that a check of it fails on every rank or on none. `setting`, named
/// `setting_name` in the error, must be equal on all ranks, else every rank throws Error(mismatch). Collective; local
/// with one rank.
[[nodiscard]] std::vector<std::vector<ComponentShape>> exchange_shapes(
    Communicator& communicator, std::string_view call, std::span<const std::vector<ComponentShape>> mine,
    std::int64_t setting, std::string_view setting_name, const ReduceOptions& how);

/// Throws Error(invalid_argument) unless all components are equal except for their extents along `axis` (for a negative
/// axis: equal in everything). The text begins with `call`. Local.
void check_shapes_match(std::span<const ComponentShape> components, int axis, std::string_view call);

}  // namespace lockstep
