// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of distributed values that become the items of one collective. Some checks use only the values of this rank.
// Other checks need an exchange of shapes: every rank learns the shapes of all replicas before tensors of different
// extents are gathered.

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

/// Throws Error(invalid_argument) if `components` is not the number of local replicas. Local.
void check_component_count(std::size_t components, std::string_view call, int local_replicas);

/// Throws Error(invalid_argument) if components have different element types. Local.
void check_same_dtype(std::span<const ConstTensorView> components, std::string_view call, int first_replica);

/// Throws Error(invalid_argument) if the number of inputs of an item is not the number of local replicas, if the inputs
/// of an item differ in dtype or shape, if `op` does not support the dtype, or if an output does not have the dtype of
/// the result. `first_replica` is the id of component 0. Local.
void check_distributed_items(std::span<const Item> items, ReduceOp op, std::string_view call, int local_replicas,
                             int first_replica);

/// Dtype and shape of one component of a value.
struct ComponentShape {
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t rows = 0;  ///< number of rows of the whole tensor, if the component has sparse rows
  int axis = 0;           ///< axis along which the component is gathered; not negative if the shape has the axis
  friend bool operator==(const ComponentShape&, const ComponentShape&) = default;
};

/// Exchanges the shapes of all components. `result[k][r]` is the shape of value k on replica r; `mine[k]` has the
/// shapes of value k on this rank. The result is the same on every rank, so a check of the result fails on every rank
/// or on no rank. If `op` is not equal on all ranks, every rank throws Error(mismatch). Collective; with one rank,
/// Local.
[[nodiscard]] std::vector<std::vector<ComponentShape>> exchange_shapes(
    Communicator& communicator, std::string_view call, std::span<const std::vector<ComponentShape>> mine, ReduceOp op,
    const ReduceOptions& how);

/// Throws Error(mismatch) if components of equal rank are gathered along different axes. Local.
void check_axes_match(std::span<const ComponentShape> components, std::string_view call);

/// Throws Error(invalid_argument) if components differ in dtype, rows or shape; the extents along `axis` may differ. If
/// `axis` is negative, all extents must be equal. The error text begins with `call`. Local.
void check_shapes_match(std::span<const ComponentShape> components, int axis, std::string_view call);

}  // namespace lockstep
