// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// all_reduce and reduce inside a node, through memory that all ranks see: the owner of a slice reads all inputs of the
// node, adds them along the canonical tree in registers and writes all outputs, in one pass.
//
// Up to `flat_bytes` everybody adds everything that lies on the boards. Above, slices in place: every byte is read once
// and written once. (Movement-avoiding reduction, Peng et al., SC 2023.)

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/host/node_operation.hpp"

#include <memory>
#include <vector>

namespace lockstep::detail {

/// An all_reduce or reduce over `group`, which has one member for each rank of `layout`.
[[nodiscard]] std::shared_ptr<Operation> make_node_reduce(const Descriptor& descriptor, const ReplicaLayout& layout,
                                                          NodeGroup& group, const std::vector<HostItem>& items,
                                                          const NodeTuning& tuning = {});

}  // namespace lockstep::detail
