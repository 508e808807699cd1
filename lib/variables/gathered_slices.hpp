// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/values/indexed_slices.hpp>

#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

class ReplicaTeam;

/// Concatenates the rows of all replicas, in the order of replica ids, on each device in `places`; `local` holds the
/// slices of this rank's replicas. Replicas may have different numbers of rows; everything else is equal. All slices,
/// of all ranks, are in host memory, or all are on GPUs. Cross-replica context. Collective; throws Error(mismatch) if
/// ranks give different names. Cost: as reduce_slices.
[[nodiscard]] std::vector<IndexedSlices> gather_slices(ReplicaTeam& team, std::span<const IndexedSlices> local,
                                                       std::span<const Device> places, std::string_view name);

/// The rows of replica 0, on every rank. All slices are in host memory. Otherwise as gather_slices. Cost: two
/// broadcasts.
[[nodiscard]] IndexedSlices broadcast_slices(ReplicaTeam& team, std::span<const IndexedSlices> local,
                                             std::string_view name);

}  // namespace lockstep
