// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of distributed values that become the items of one collective. What this rank alone can see to be wrong.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/reduce_op.hpp>

#include <cstddef>
#include <span>
#include <string_view>

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

}  // namespace lockstep
