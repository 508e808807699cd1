// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce, reduce and reduce_scatter inside a node, through memory that all ranks see: the owner of a slice reads
// all inputs of the node, adds them along the canonical tree in registers and writes all outputs, in one pass. In a
// reduce_scatter a rank owns the parts of its replicas, and their outputs are its own.
//
// Up to `flat_bytes` everybody adds what it wants of what lies on the control blocks. Above, slices in place: every
// byte is read once and written once. (Movement-avoiding reduction, Peng et al., SC 2023.)

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/engine/parallel_loop.hpp"
#include "collectives/host/node_operation.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// An all_reduce, reduce or reduce_scatter over `group`, which has one member for each rank of `layout`.
[[nodiscard]] std::shared_ptr<Operation> make_node_reduce(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                          NodeGroup& group, const std::vector<HostItem>& items,
                                                          const NodeTuning& tuning = {},
                                                          std::shared_ptr<ParallelLoop> loop = nullptr);

}  // namespace lockstep::detail
