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

/// Throws Error(invalid_argument) if this rank detects sparse values that cannot be reduced. Local.
void check_slices(std::span<const std::vector<const IndexedSlices*>> values, ReduceOp op, std::string_view call,
                  int local_replicas);

/// Concatenates the rows of each value over all replicas, in the order of replica ids. If an index occurs several
/// times, each occurrence is kept. For a mean, the rows are divided by the number of replicas; the mean of integers is
/// f64. `values[k]` has this rank's components, which the caller has checked; `result[k]` has one copy of the result on
/// each device in `places[k]`. Collective. Throws Error(invalid_argument) on every rank if dtypes, row shapes or row
/// counts differ.
[[nodiscard]] std::vector<std::vector<IndexedSlices>> reduce_slices(
    CrossDeviceOps& ops, Communicator& communicator, std::string_view call,
    std::span<const std::vector<const IndexedSlices*>> values, ReduceOp op, std::span<const std::vector<Device>> places,
    const CommunicationOptions& options);

}  // namespace lockstep
