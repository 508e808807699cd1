// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// broadcast, all_gather and gather inside a node, through memory that all ranks see: who wants bytes copies them from
// where they lie; who gives them only waits until all have. A barrier is the case without bytes.
//
// Up to `flat_bytes` from the control blocks: one crossing, and nobody waits for those who copy. Above in place: every
// byte is read and written once by each rank that wants it, and a second crossing lets the givers go.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/host/node_operation.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// A broadcast, all_gather, gather or barrier over `group`, which has one member for each rank of `layout`.
[[nodiscard]] std::shared_ptr<Operation> make_node_copy(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                        NodeGroup& group, const std::vector<HostItem>& items,
                                                        const NodeTuning& tuning = {});

}  // namespace lockstep::detail
