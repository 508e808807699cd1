// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of IndexedSlices (sparse rows).

#pragma once

#include <lockstep/core/reduce_op.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/values/indexed_slices.hpp>

#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// Throws Error(invalid_argument) for sparse values that cannot be reduced, as far as this rank alone can see. Local.
void check_slices(std::span<const std::vector<const IndexedSlices*>> values, ReduceOp op, std::string_view call,
                  int local_replicas);

/// Concatenates the rows of each value over all replicas, in the order of replica ids; an index that occurs several
/// times is kept several times. For a mean the rows are divided by the number of replicas (integers in f64).
/// `values[k]` holds this rank's components, already checked; `result[k]` holds one copy of the result on each device
/// in `places[k]`. Collective. Throws the same error on every rank: Error(invalid_argument) if dtypes, row shapes or
/// row counts differ.
[[nodiscard]] std::vector<std::vector<IndexedSlices>> reduce_slices(
    CrossDeviceOps& ops, Communicator& communicator, std::string_view call,
    std::span<const std::vector<const IndexedSlices*>> values, ReduceOp op, std::span<const std::vector<Device>> places,
    const CommunicationOptions& options);

}  // namespace lockstep
