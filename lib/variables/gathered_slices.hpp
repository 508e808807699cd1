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

/// The rows of all replicas of all ranks, one after the other in replica order, at each of `places`; `local` are those
/// of this rank's. Their numbers differ, all else is equal. All lie in host memory, or all, of all ranks, on GPUs.
/// Cross-replica context; collective; ranks that give other names get Error(mismatch). Cost: as reduce_slices.
[[nodiscard]] std::vector<IndexedSlices> gather_slices(ReplicaTeam& team, std::span<const IndexedSlices> local,
                                                       std::span<const Device> places, std::string_view name);

/// The rows of replica 0, on all ranks. All lie in host memory. Else as gather_slices. Cost: two broadcasts.
[[nodiscard]] IndexedSlices broadcast_slices(ReplicaTeam& team, std::span<const IndexedSlices> local,
                                             std::string_view name);

}  // namespace lockstep
