// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of sparse rows.

#pragma once

#include <lockstep/core/reduce_op.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/values/indexed_slices.hpp>

#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// What this rank alone can see to be wrong in sparse values that are to be reduced. Local. Throws
/// Error(invalid_argument).
void check_slices(std::span<const std::vector<const IndexedSlices*>> values, ReduceOp op, std::string_view call,
                  int local_replicas);

/// `result[k]`: equal values, one at each of `places[k]`, with the rows of value k on all replicas one after the other,
/// by replica id; rows that are named several times stay so. The rows of a mean are divided by the number of replicas,
/// those of integers in f64. `values[k]` are this rank's components, checked before. Collective. Throws the same on
/// every rank: Error(invalid_argument) for dtypes, extents of a row, or tensors that differ.
[[nodiscard]] std::vector<std::vector<IndexedSlices>> reduce_slices(
    CrossDeviceOps& ops, Communicator& communicator, std::string_view call,
    std::span<const std::vector<const IndexedSlices*>> values, ReduceOp op, std::span<const std::vector<Device>> places,
    const CommunicationOptions& options);

}  // namespace lockstep
