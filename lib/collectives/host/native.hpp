// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An all_reduce in any order, handed to the backend's own reduction.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/call/host_item.hpp"
#include "collectives/engine/operation.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// This rank's replicas are added along the tree, then the backend adds the ranks' sums (MPI_Iallreduce per item,
/// polled against the deadline). Every item's accumulation type must be one that the transport's has_native_all_reduce
/// knows.
[[nodiscard]] std::shared_ptr<Operation> make_native_all_reduce(const Descriptor& descriptor,
                                                                const ReplicaLayout& layout, int rank,
                                                                std::vector<HostItem> items);

}  // namespace lockstep::detail
