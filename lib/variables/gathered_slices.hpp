// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/values/indexed_slices.hpp>

#include <span>
#include <string_view>

namespace lockstep {

class ReplicaTeam;

/// The rows of all replicas of all ranks, one after the other in replica order; `local` are those of this rank's. Their
/// numbers differ, all else is equal. In host memory. Cross-replica context; collective; ranks that give other names
/// get Error(mismatch). Cost: as reduce_slices.
[[nodiscard]] IndexedSlices gather_slices(ReplicaTeam& team, std::span<const IndexedSlices> local,
                                          std::string_view name);

/// The rows of replica 0, on all ranks. Else as gather_slices. Cost: two broadcasts.
[[nodiscard]] IndexedSlices broadcast_slices(ReplicaTeam& team, std::span<const IndexedSlices> local,
                                             std::string_view name);

}  // namespace lockstep
