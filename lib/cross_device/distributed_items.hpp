// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Distributed values as the items of one collective.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <cstddef>
#include <span>
#include <string_view>

namespace lockstep {

/// Throws Error(invalid_argument) unless there is a component for each local replica. Local.
void check_component_count(std::size_t components, std::string_view call, int local_replicas);

/// Throws Error(invalid_argument) unless all components have the same element type. Local.
void check_same_dtype(std::span<const ConstTensorView> components, std::string_view call, int first_replica);

/// What this rank alone can see wrong in values that are to be reduced: a number of components other than the local
/// replicas, or dtypes, shapes that differ between them, an element type without that op. Local. Throws
/// Error(invalid_argument). `first_replica` is the id of component 0.
void check_distributed_items(std::span<const Item> items, ReduceOp op, std::string_view call, int local_replicas,
                             int first_replica);

}  // namespace lockstep
